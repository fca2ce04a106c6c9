"""Users take turns, and what is one user's stays in its order."""

from collections import Counter
from itertools import groupby
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from corral.fair_queue import FairQueue

T = TypeVar("T")

USERS = st.sampled_from(["ann", "bob", "eve", ""])
STEPS = st.lists(st.one_of(USERS, st.none()), max_size=80)
"""Who puts something, and None where something is taken."""


def taken_all(waiting: FairQueue[T]) -> list[T]:
    return [*iter(waiting.pop, None)]


@given(STEPS)
def test_nothing_is_lost_or_doubled_and_each_users_things_come_in_their_order(steps: list[str | None]) -> None:
    waiting, put, came = FairQueue[tuple[str, int]](), list[tuple[str, int]](), list[tuple[str, int]]()
    for number, user in enumerate(steps):
        if user is not None:
            put.append((user, number))
            waiting.put(user, put[-1])
        elif (item := waiting.pop()) is not None:
            came.append(item)
        assert len(waiting) == len(put) - len(came)
    came += taken_all(waiting)
    assert sorted(came) == sorted(put)
    for user in {user for user, _ in put}:
        assert [one for one in came if one[0] == user] == [one for one in put if one[0] == user]
        assert waiting.of(user) == 0


@given(STEPS, USERS)
def test_before_whoever_comes_every_other_user_has_one_turn_at_most(steps: list[str | None], comes: str) -> None:
    waiting = FairQueue[tuple[str, int]]()
    for number, user in enumerate(steps):
        if user is None:
            waiting.pop()
        elif user != comes:
            waiting.put(user, (user, number))
    waiting.put(comes, (comes, -1))
    turns = [user for user, _ in taken_all(waiting)]
    assert max(Counter(turns[: turns.index(comes)]).values(), default=0) <= 1


@given(st.lists(USERS, max_size=60))
def test_while_several_wait_nobody_has_two_turns_in_a_row(users: list[str]) -> None:
    waiting = FairQueue[str]()
    for user in users:
        waiting.put(user, user)
    turns = taken_all(waiting)
    left = Counter(users)
    for user, in_a_row in groupby(turns):
        count = len(list(in_a_row))
        left[user] -= count
        others = sum(left[other] for other in left if other != user)
        assert count == 1 or others == 0


@given(st.lists(st.tuples(USERS, st.booleans()), max_size=60))
def test_what_does_not_fit_keeps_its_users_other_things_waiting_and_nobody_elses(items: list[tuple[str, bool]]) -> None:
    waiting = FairQueue[tuple[str, int, bool]]()
    for number, (user, fits) in enumerate(items):
        waiting.put(user, (user, number, fits))
    came = [*iter(lambda: waiting.pop(lambda one: one[2]), None)]
    for user in {user for user, _ in items}:
        own = [fits for owner, fits in items if owner == user]
        until = own.index(False) if False in own else len(own)
        assert len([one for one in came if one[0] == user]) == until
        assert waiting.of(user) == len(own) - until


@given(st.lists(st.tuples(USERS, st.booleans()), max_size=60))
def test_what_is_discarded_never_comes_and_the_rest_comes_as_if_it_had_not_been_there(
    items: list[tuple[str, bool]],
) -> None:
    waiting, kept_alone = FairQueue[tuple[str, int]](), FairQueue[tuple[str, int]]()
    for number, (user, kept) in enumerate(items):
        waiting.put(user, (user, number))
        if kept:
            kept_alone.put(user, (user, number))
    for _ in range(2):
        for number, (user, kept) in enumerate(items):
            if not kept:
                waiting.discard(user, (user, number))
        assert len(waiting) == len(kept_alone)
    came, expected = taken_all(waiting), taken_all(kept_alone)
    assert sorted(came) == sorted(expected)
    for user in {user for user, _ in items}:
        assert [one for one in came if one[0] == user] == [one for one in expected if one[0] == user]


def test_who_comes_while_a_long_thing_is_done_has_a_turn_before_the_next_of_the_same_user() -> None:
    waiting = FairQueue[str]()
    for item in ("first", "second"):
        waiting.put("ann", item)
    assert waiting.pop() == "first"
    waiting.put("bob", "came meanwhile")
    assert taken_all(waiting) == ["came meanwhile", "second"]


def test_who_was_passed_over_has_the_next_turn_once_it_fits() -> None:
    waiting = FairQueue[str]()
    for user, item in (("ann", "large"), ("bob", "b1"), ("bob", "b2"), ("eve", "e1")):
        waiting.put(user, item)
    assert waiting.pop(lambda item: item != "large") == "b1"
    assert taken_all(waiting) == ["large", "e1", "b2"]
