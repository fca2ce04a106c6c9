"""Requests take turns as their users do: order, limits, and those that leave."""

import asyncio
import math
import os
import pwd
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from corral.api.requests.request_turns import SHORT_S, RecentUsers, UserTurns, answer_for, whose_request
from tests.api.world import Served

USERS = st.sampled_from(["ann", "bob", "eve"])


async def let_all_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Crowd:
    """Requests that each keep their turn until they are told to give it back."""

    def __init__(self, turns: UserTurns) -> None:
        self._turns = turns
        self._tasks: list[asyncio.Task[None]] = []
        self._ends: list[asyncio.Event] = []
        self.began: list[int] = []
        self.has: list[int] = []

    async def come(self, user: str) -> None:
        end = asyncio.Event()
        self._ends.append(end)
        self._tasks.append(asyncio.create_task(self._keep(user, len(self._tasks), end)))
        await let_all_run()

    async def _keep(self, user: str, number: int, end: asyncio.Event) -> None:
        async with self._turns.turn(user):
            self.began.append(number)
            self.has.append(number)
            try:
                await end.wait()
            finally:
                self.has.remove(number)

    async def end(self, number: int) -> None:
        self._ends[number].set()
        await let_all_run()

    async def leave(self, number: int) -> None:
        self._tasks[number].cancel()
        await let_all_run()


async def _after(crowd: Crowd, users: Sequence[str]) -> list[int]:
    """The order in which all of these get a turn, when each turn is ended as soon as it has begun."""
    for user in users:
        await crowd.come(user)
    while crowd.has:
        await crowd.end(crowd.has[0])
    return crowd.began


def test_users_take_turns_and_each_ones_requests_stay_in_order() -> None:
    crowd = ["ann"] * 6 + ["bob", "eve", "bob"]
    assert asyncio.run(_after(Crowd(UserTurns(1, 1)), crowd)) == [0, 1, 6, 7, 2, 8, 3, 4, 5]


def test_one_user_has_no_more_turns_than_theirs_though_there_are_more() -> None:
    async def come() -> list[int]:
        crowd = Crowd(UserTurns(4, of_a_user=2))
        for user in ["ann"] * 5 + ["bob"]:
            await crowd.come(user)
        return [*crowd.has]

    assert asyncio.run(come()) == [0, 1, 5]


def test_who_leaves_before_their_turn_leaves_nothing_that_waits() -> None:
    async def come_and_go() -> list[int]:
        turns = UserTurns(4, of_a_user=1)
        crowd, waited = Crowd(turns), list[int]()
        for user in ["ann"] * 5 + ["bob"] * 2:
            await crowd.come(user)
        for number in (2, 1, 4, 3, 6):
            waited.append(turns.waiting)
            await crowd.leave(number)
        return [*waited, turns.waiting]

    assert asyncio.run(come_and_go()) == [5, 4, 3, 2, 1, 0]


async def _pause_after_a_long_turn_of_ann(*askers: str) -> float:
    """How much of the length of ann's turn passes between its end and her next turn."""
    turns, loop = UserTurns(4, of_a_user=1, rests=True), asyncio.get_running_loop()
    for user in askers:
        answer_for(user)
    async with turns.turn("ann"):
        began_s = loop.time()
        await asyncio.sleep(1.5 * SHORT_S)
        took_s = loop.time() - began_s
    ended_s = loop.time()
    async with turns.turn("bob"):
        assert loop.time() - ended_s < took_s, "others do not wait for that"
    async with turns.turn("ann"):
        return (loop.time() - ended_s) / took_s


def test_who_had_a_long_turn_rests_as_long_where_others_ask() -> None:
    assert asyncio.run(_pause_after_a_long_turn_of_ann("bob", "ann")) > 0.9


def test_who_is_alone_does_not_rest() -> None:
    asked = RecentUsers()
    for user, at_s in (("bob", 1.0), ("ann", 2.0), ("ann", 3.0)):
        asked.ask(user, at_s)
    assert [asked.other_asked_at_s(user) for user in ("ann", "bob", "eve")] == [1.0, 3.0, 3.0]
    assert RecentUsers().other_asked_at_s("ann") == -math.inf


@given(st.lists(st.one_of(USERS, st.tuples(st.booleans(), st.integers(0, 30))), max_size=40))
def test_no_turn_is_lost_whoever_leaves_or_ends(steps: list[str | tuple[bool, int]]) -> None:
    """A user comes; or one of those who came ends its turn, or leaves, with a turn or without."""

    async def live() -> None:
        turns = UserTurns(3, of_a_user=2)
        crowd, users, gone = Crowd(turns), list[str](), set[int]()
        for step in steps:
            if isinstance(step, str):
                users.append(step)
                await crowd.come(step)
            elif step[1] < len(users):
                await (crowd.leave if step[0] else crowd.end)(step[1])
                gone |= {step[1]} if step[0] else set()
            has = Counter(users[number] for number in crowd.has)
            assert len(crowd.has) <= 3
            assert max(has.values(), default=0) <= 2
        while crowd.has:
            await crowd.end(crowd.has[0])
        assert set(range(len(users))) - gone <= set(crowd.began)
        for user in ("ann", "ann", "bob"):
            await crowd.come(user)
        assert len(crowd.has) == 3, "all turns were given back"

    asyncio.run(live())


def test_what_is_answered_on_a_thread_is_answered_in_its_users_turn(served: Served) -> None:
    seen: list[str] = []
    queries = served.world.service.queries
    jobs = queries.jobs

    def noted(*args: object, **kwargs: object) -> object:
        seen.append(whose_request.get())
        return jobs(*args, **kwargs)  # type: ignore[arg-type]

    queries.jobs = noted  # type: ignore[assignment,method-assign]
    assert served.call("GET", "/jobs").status == 200
    assert seen == [pwd.getpwuid(os.geteuid()).pw_name]
