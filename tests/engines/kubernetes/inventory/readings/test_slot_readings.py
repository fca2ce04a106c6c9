"""A reading belongs to a slot by its pod; where that cannot be told it belongs to none."""

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from corral.engines.kubernetes.inventory.occupants import PodName
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.engines.kubernetes.inventory.readings.slot_readings import readings_by_slot

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
