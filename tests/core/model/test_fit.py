from dataclasses import replace

import pytest

from corral.core.model.devices.device import (
    Device,
    DeviceCondition,
    DeviceProcess,
    DeviceState,
    HeldPart,
    HoldingPod,
    Node,
)
from corral.core.model.devices.health import WELL, DeviceHealth, Health
from corral.core.model.devices.model_and_profile_match import model_matches
from corral.core.model.fact import AllocationMade, ConditionObserved, DeviceHealthChanged, NodeObserved
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.placing.fit import Cause, Fit, Misfit, fit
from corral.core.model.placing.state import NodeState, Slot, node_state
from corral.core.model.version import version_tuple
from corral.core.model.view import View

A100 = Slot("NVIDIA A100-SXM4-80GB", 81920, (8, 0), free_milli=1000, free_mib=81920)
T4 = Slot("Tesla T4", 15360, (7, 5), free_milli=1000, free_mib=15360)


def state(*slots: Slot, cpu: int = 8000, memory: int = 32768) -> NodeState:
    return NodeState(slots, cpu, memory, labels=(("zone", "a"),), driver=(535, 10), cuda=(12, 2))


def misfit(request: Request, *slots: Slot) -> Misfit:
    answer = fit(request, state(*slots))
    assert isinstance(answer, Misfit)
    return answer


def test_every_slot_that_can_serve_is_named_and_no_other() -> None:
    taken = A100._replace(free_milli=0)
    cordoned = A100._replace(blocked=DeviceState.CORDONED)
    assert fit(Request(devices=2), state(A100, taken, cordoned, T4)) == Fit((0, 3))


@pytest.mark.parametrize(
    ("request_", "cause"),
    [
        (Request(models=("H100",)), Cause.MODEL),
        (Request(min_compute=(9, 0)), Cause.COMPUTE),
        (Request(min_memory_mib=100_000), Cause.MEMORY),
        (Request(labels=(("zone", "b"),)), Cause.LABELS),
        (Request(min_driver=(550,)), Cause.DRIVER),
        (Request(min_cuda=(12, 4)), Cause.CUDA),
        (Request(devices=3), Cause.NO_NODE),
    ],
)
def test_what_no_waiting_can_mend_says_never(request_: Request, cause: Cause) -> None:
    answer = misfit(request_, A100, T4)
    assert (answer.cause, answer.never, answer.eviction_helps) == (cause, True, False)


@pytest.mark.parametrize(
    ("slot", "cause", "evictable"),
    [
        (A100._replace(free_milli=400), Cause.ALLOCATED, True),
        (A100._replace(blocked=DeviceState.IN_USE), Cause.IN_USE, False),
        (A100._replace(blocked=DeviceState.CORDONED), Cause.CORDONED, False),
        (A100._replace(blocked=DeviceState.UNREADABLE), Cause.UNREADABLE, False),
        (A100._replace(blocked=DeviceState.UNHEALTHY), Cause.UNHEALTHY, False),
        (A100._replace(blocked=DeviceState.QUARANTINED), Cause.QUARANTINED, False),
        (A100._replace(blocked=DeviceState.PROBATION), Cause.PROBATION, False),
    ],
)
def test_what_waiting_can_mend_says_by_what(slot: Slot, cause: Cause, evictable: bool) -> None:
    answer = misfit(Request(), slot)
    assert (answer.cause, answer.never, answer.eviction_helps) == (cause, False, evictable)
    assert answer.devices == ((cause, 1),)


def test_a_share_fits_beside_others_where_a_whole_device_does_not() -> None:
    shared = A100._replace(free_milli=400)
    assert fit(Request(share_milli=400), state(shared)) == Fit((0,))
    assert isinstance(fit(Request(share_milli=401), state(shared)), Misfit)


def test_memory_that_was_granted_is_not_granted_twice() -> None:
    half = A100._replace(free_milli=500, free_mib=30_000)
    assert isinstance(fit(Request(share_milli=100, memory_mib=30_001), state(half)), Misfit)
    assert fit(Request(share_milli=100, memory_mib=30_000), state(half)) == Fit((0,))


def test_a_device_whose_memory_cannot_be_read_serves_nobody_who_asks_for_memory() -> None:
    assert misfit(Request(min_memory_mib=1), A100._replace(memory_mib=None, free_mib=None)).cause is Cause.MEMORY


def test_a_device_in_use_is_taken_only_by_who_says_that_free_memory_will_do() -> None:
    used = A100._replace(blocked=DeviceState.IN_USE, left_mib=20_000)
    assert fit(Request(accept_in_use=20_000), state(used)) == Fit((0,))
    assert isinstance(fit(Request(accept_in_use=20_001), state(used)), Misfit)


@pytest.mark.parametrize(
    "request_",
    [Request(), Request(share_milli=500), Request(split_milli=500)],
    ids=["whole", "share", "share that may be split"],
)
def test_a_suspect_device_serves_work_on_one_device(request_: Request) -> None:
    assert fit(request_, state(A100._replace(blocked=DeviceState.SUSPECT))) == Fit((0,))


@pytest.mark.parametrize(
    "request_",
    [Request(devices=2), Request(gang_size=2), Request(split_milli=1500)],
    ids=["several", "gang", "split"],
)
def test_a_suspect_device_serves_no_work_on_several_devices(request_: Request) -> None:
    answer = misfit(request_, A100._replace(blocked=DeviceState.SUSPECT), A100._replace(free_milli=0))
    assert not answer.never


def test_a_suspect_device_gives_no_part_of_a_split_share() -> None:
    suspect = A100._replace(blocked=DeviceState.SUSPECT, free_milli=300)
    assert isinstance(fit(Request(split_milli=500), state(suspect, A100._replace(free_milli=300))), Misfit)


def test_only_named_slots_serve_a_request_that_names_devices() -> None:
    assert fit(Request(device_uuids=("GPU-1",)), state(A100, A100), usable=(1,)) == Fit((1,))
    answer = fit(Request(device_uuids=("GPU-9",)), state(A100, A100), usable=())
    assert isinstance(answer, Misfit)
    assert answer.cause is Cause.NOT_NAMED
    assert answer.never


def test_cpu_and_memory_of_the_host_count_beside_devices() -> None:
    assert misfit(Request(devices=0, cpu_milli=8001)).cause is Cause.CPU
    assert misfit(Request(devices=0, host_memory_mib=32769)).cause is Cause.HOST_MEMORY
    assert fit(Request(devices=0), state()) == Fit(())


@pytest.mark.parametrize(
    ("wish", "model", "matches"),
    [
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("a100-80gb", "NVIDIA A100-SXM4-80GB", True),
        ("A10", "NVIDIA A100-SXM4-80GB", False),
        ("A100-40GB", "NVIDIA A100-SXM4-80GB", False),
        ("H100", "NVIDIA H100 80GB HBM3", True),
    ],
)
def test_a_model_matches_by_whole_words(wish: str, model: str, matches: bool) -> None:
    assert model_matches((wish,), model) is matches


def test_versions_compare_by_their_numbers() -> None:
    assert version_tuple("580.159.03") == (580, 159, 3)
    assert version_tuple("N/A") is None
    assert version_tuple(None) is None


def box(*conditions: DeviceCondition) -> View:
    devices = tuple(Device(c.uuid, i, "A100", 81920) for i, c in enumerate(conditions))
    node = Node("box", devices, 8000, 32768)
    return View().advance([NodeObserved(node), *(ConditionObserved(c) for c in conditions)])


def test_the_state_of_a_node_counts_what_allocations_hold() -> None:
    member = Member("box", (Grant("GPU-0", 300, 20_000),), cpu_milli=2000, host_memory_mib=1024)
    view = box(DeviceCondition("GPU-0")).advance(
        [AllocationMade(Allocation("1.1", "1", "al", Placement((member,)), 0.0), at=0.0, by="test")]
    )
    now = node_state(view, "box")
    assert (now.slots[0].free_milli, now.slots[0].free_mib) == (700, 61_920)
    assert (now.cpu_milli, now.memory_mib) == (6000, 31_744)


def held(*parts: tuple[int, int | None]) -> DeviceCondition:
    pod = HoldingPod("ml", "notebook-0")
    return DeviceCondition("GPU-0", parts=tuple(HeldPart(pod, milli, mib) for milli, mib in parts))


def test_the_parts_that_pods_outside_corral_have_are_not_free() -> None:
    slot = node_state(box(held((300, 10_000), (200, None))), "box").slots[0]
    assert (slot.free_milli, slot.open_milli, slot.free_mib) == (500, 500, 81_920 - 10_000 - 16_384)
    assert slot.blocked is None


def test_no_job_is_evicted_for_a_part_that_a_pod_has() -> None:
    state = node_state(box(held((600, 10_000))), "box")
    answer = fit(Request(share_milli=500, memory_mib=1), state)
    assert isinstance(answer, Misfit)
    assert (answer.cause, answer.never, answer.eviction_helps) == (Cause.IN_USE, False, False)
    assert isinstance(fit(Request(share_milli=400, memory_mib=1), state), Fit)


def test_memory_that_pods_have_is_in_use_and_not_only_granted() -> None:
    state = node_state(box(held((100, 80_000))), "box")
    answer = fit(Request(share_milli=500, memory_mib=10_000), state)
    assert isinstance(answer, Misfit)
    assert (answer.cause, answer.eviction_helps) == (Cause.IN_USE, False)


@pytest.mark.parametrize("part", [(800, 0), (100, 70_000)])
def test_a_device_of_which_more_is_given_away_than_it_has_is_closed(part: tuple[int, int]) -> None:
    member = Member("box", (Grant("GPU-0", 300, 20_000),))
    view = box(held(part)).advance(
        [AllocationMade(Allocation("1.1", "1", "al", Placement((member,)), 0.0), at=0.0, by="test")]
    )
    slot = node_state(view, "box").slots[0]
    assert slot.blocked is DeviceState.IN_USE
    assert slot.free_milli >= 0
    assert slot.free_mib is not None
    assert slot.free_mib >= 0


def test_a_device_that_was_never_sampled_is_not_handed_out() -> None:
    view = View().advance([NodeObserved(Node("box", (Device("GPU-0", 0, "A100", 81920),), 8000, 32768))])
    assert node_state(view, "box").slots[0].blocked is DeviceState.UNREADABLE


def test_a_device_that_is_lent_stays_suspect() -> None:
    view = box(DeviceCondition("GPU-0", strangers=(DeviceProcess(4242),), stale=True, lendable=True))
    suspect = DeviceHealthChanged("GPU-0", DeviceHealth(Health.SUSPECT, "Xid 63", 0.0), at=0.0, by="t")
    assert node_state(view.advance([suspect]), "box").slots[0].blocked is DeviceState.SUSPECT


def test_the_health_of_a_device_is_kept_by_new_conditions_and_forgotten_with_its_faults() -> None:
    sick = DeviceHealth(Health.QUARANTINED, "Xid 79", 0.0, relapses=1, noted=1.0)
    view = box(DeviceCondition("GPU-0")).advance([DeviceHealthChanged("GPU-0", sick, at=0.0, by="t")])
    read_again = view.advance([ConditionObserved(DeviceCondition("GPU-0"))])
    assert read_again.conditions["GPU-0"].health == sick
    well = read_again.advance([DeviceHealthChanged("GPU-0", WELL, at=1.0, by="t")])
    assert well.health == {}
    assert well.conditions["GPU-0"].health is None


def test_a_stale_device_is_lent_for_what_it_has_left_by_the_sites_choice_alone() -> None:
    stranger = DeviceProcess(4242, 5000)
    kept = DeviceCondition("GPU-0", strangers=(stranger,), stale=True, memory_free_mib=60_000)
    lent = DeviceCondition("GPU-1", strangers=(stranger,), stale=True, lendable=True, memory_free_mib=60_000)
    slots = node_state(box(kept, lent), "box").slots
    assert [slot.blocked for slot in slots] == [DeviceState.STALE, None]
    in_use = replace(lent, uuid="GPU-0", stale=False)
    assert [slot.blocked for slot in node_state(box(in_use, lent), "box").slots] == [None, None]
    assert slots[1].free_mib == slots[1].memory_mib == 60_000
