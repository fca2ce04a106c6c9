"""Pods of others have as many slots as they have devices, apart from those of jobs, and stay where they are."""

from hypothesis import given
from hypothesis import strategies as st

from corral.engines.kubernetes.inventory.slots import PodClaim, SlotUse, assign

NOTHING = SlotUse()

claims = st.lists(st.integers(0, 5), max_size=5).map(
    lambda counts: [PodClaim(f"pod-{number}", count) for number, count in enumerate(counts)]
)
held = st.frozensets(st.integers(0, 7))


def counts(use: SlotUse) -> dict[str, int]:
    return {uid: list(use.pods.values()).count(uid) for uid in use.pods.values()}


def test_pods_take_the_last_slots_that_nobody_has() -> None:
    use = assign(8, {7}, [PodClaim("a", 2), PodClaim("b", 1)], 0, NOTHING)
    assert use.pods == {4: "b", 5: "a", 6: "a"}


def test_a_pod_stays_where_it_is_when_others_go() -> None:
    before = assign(8, (), [PodClaim("a", 2), PodClaim("b", 2)], 0, NOTHING)
    assert assign(8, (), [PodClaim("b", 2), PodClaim("c", 1)], 0, before).pods == {4: "b", 5: "b", 7: "c"}


def test_a_pod_makes_room_for_a_job_that_has_its_slot() -> None:
    before = assign(4, (), [PodClaim("a", 2)], 0, NOTHING)
    assert assign(4, {2, 3}, [PodClaim("a", 2)], 0, before).pods == {0: "a", 1: "a"}


def test_a_pod_is_put_where_a_job_is_about_to_start_only_if_there_is_nothing_else() -> None:
    assert assign(2, (), [PodClaim("a", 1)], 0, NOTHING, chosen={1}).pods == {0: "a"}
    assert assign(2, {0}, [PodClaim("a", 1)], 0, NOTHING, chosen={1}).pods == {1: "a"}


def test_sick_are_those_that_nobody_has_and_they_stay_so() -> None:
    use = assign(4, {3}, [PodClaim("a", 1)], 1, NOTHING)
    assert (dict(use.pods), set(use.sick)) == ({2: "a"}, {1})
    assert assign(4, (), [], 1, use).sick == {1}
    assert assign(4, {0, 1, 3}, [PodClaim("a", 1)], 1, use).sick == {2}


@given(st.integers(0, 8), held, claims, st.integers(0, 8))
def test_whatever_there_is_none_has_more_and_none_is_given_twice(
    slots: int, held: frozenset[int], others: list[PodClaim], sick: int
) -> None:
    use = assign(slots, held, others, min(sick, slots), NOTHING)
    free = slots - len([slot for slot in held if slot < slots])
    assert held.isdisjoint(use.pods)
    assert all(0 <= slot < slots for slot in use.pods)
    assert len(use.sick) == min(sick, slots)
    found = counts(use)
    assert sum(found.values()) == min(free, sum(claim.devices for claim in others))
    assert all(found.get(claim.uid, 0) <= claim.devices for claim in others)


@given(st.integers(1, 8), held, claims)
def test_what_has_not_changed_is_told_as_before(slots: int, held: frozenset[int], others: list[PodClaim]) -> None:
    once = assign(slots, held, others, 1, NOTHING)
    assert assign(slots, held, others, 1, once) == once
