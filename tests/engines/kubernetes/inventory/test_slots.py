"""Pods of others have as many slots as they have devices, apart from those of jobs, and stay where they are."""

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from corral.engines.kubernetes.inventory.occupants import PodName
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.engines.kubernetes.inventory.slots import PodClaim, SlotUse, assign, readings_by_slot

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


OURS, THEIRS, ENDED = ("ml", "ours"), ("team", "theirs"), ("team", "ended")


def gpus(*pods: PodName | None) -> list[GpuReading]:
    """A reading of each GPU of a node, with the pod that its exporter names."""
    return [GpuReading(index, f"GPU-{index}", pod=pod) for index, pod in enumerate(pods)]


def indices(slots: int, holders: dict[PodName, Collection[int]], read: list[GpuReading]) -> dict[int, int]:
    return {slot: gpu.index for slot, gpu in readings_by_slot(slots, holders, read).items()}


def test_the_readings_of_a_pod_are_of_its_slots_and_the_others_of_those_that_nobody_has() -> None:
    read = gpus(THEIRS, None, OURS, OURS)
    assert indices(4, {OURS: (0, 1), THEIRS: (3,)}, read) == {0: 2, 1: 3, 2: 1, 3: 0}


def test_an_exporter_that_names_itself_or_a_pod_that_has_ended_names_nobody() -> None:
    assert indices(2, {OURS: (0,)}, gpus(ENDED, OURS)) == {0: 1, 1: 0}


def test_of_a_node_that_is_wholly_empty_or_wholly_one_pods_no_pod_need_be_told() -> None:
    assert indices(2, {}, gpus(None, None)) == {0: 0, 1: 1}
    assert indices(2, {OURS: (0, 1)}, gpus(None, None)) == {0: 0, 1: 1}
    assert indices(2, {OURS: (0, 1)}, gpus(OURS, None)) == {}


def test_readings_that_tell_no_pods_are_of_no_slot_where_pods_share_a_node() -> None:
    assert indices(4, {OURS: (0, 1), THEIRS: (3,)}, gpus(None, None, None, None)) == {}


def test_a_pod_that_the_exporter_does_not_know_yet_has_no_readings_and_those_it_may_have_are_nobodys() -> None:
    assert indices(4, {OURS: (0,), THEIRS: (3,)}, gpus(THEIRS, None, None, None)) == {3: 0}


def test_a_pod_with_more_or_fewer_gpus_than_slots_has_no_readings() -> None:
    assert indices(3, {OURS: (0, 1)}, gpus(OURS, None, None)) == {}
    assert indices(3, {OURS: (0,)}, gpus(OURS, OURS, None)) == {}


PODS = st.sampled_from([OURS, THEIRS, ENDED, None])


@given(st.lists(st.sampled_from([OURS, THEIRS, None]), max_size=10), st.lists(PODS, max_size=10), st.randoms())
def test_no_reading_is_told_twice_and_none_as_somebody_elses(
    has: list[PodName | None], told: list[PodName | None], order: object
) -> None:
    holders: dict[PodName, Collection[int]] = {
        pod: [slot for slot, one in enumerate(has) if one == pod] for pod in (OURS, THEIRS) if pod in has
    }
    read = gpus(*told)
    order.shuffle(read)  # type: ignore[attr-defined]
    found = readings_by_slot(len(has), holders, read)
    assert found == readings_by_slot(len(has), holders, sorted(read, key=lambda gpu: gpu.index))
    assert len({gpu.index for gpu in found.values()}) == len(found)
    for slot, gpu in found.items():
        assert gpu.pod == has[slot] or gpu.pod not in holders
        # A slot has a reading only if all of its pod have one.
        assert all(other in found for other, pod in enumerate(has) if pod == has[slot])


@given(st.permutations([OURS, OURS, THEIRS, None, None, ENDED]))
def test_where_pods_are_told_as_they_are_every_slot_has_its_reading(told: list[PodName | None]) -> None:
    holders = {OURS: (0, 1), THEIRS: (5,)}
    found = readings_by_slot(6, holders, gpus(*told))
    assert [found[slot].pod for slot in (0, 1, 5)] == [OURS, OURS, THEIRS]
    assert {found[slot].pod for slot in (2, 3, 4)} == {None, ENDED}
