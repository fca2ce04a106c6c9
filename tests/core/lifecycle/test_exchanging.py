"""Launches get other devices in one commit: no device is given twice, and all sums stay."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from corral.core.lifecycle.exchanging import exchange
from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.fact import AllocationMade, ConditionObserved, DevicesExchanged, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation, ChosenDevice, GpuInfo, Grant, Member, Placement
from corral.core.model.view import View, ViewDraft
from corral.core.scheduling.state.capacity import Capacity

DEVICES = tuple(Device(f"GPU-{number}", number, "A100", 81920) for number in range(4))


def given_to(number: int, *uuids: str, share: int = 1000) -> list[JobSubmitted | AllocationMade]:
    """A job that has these devices of node `a`."""
    job = Job(str(number), number, JobSpec("alice"), 0.0)
    info = GpuInfo(len(uuids), tuple(range(len(uuids))), "pack", (ChosenDevice(7, "old", None, None, 0.0),))
    placement = Placement((Member("a", tuple(Grant(uuid, share) for uuid in uuids), 1000, 512),))
    allocation = Allocation(f"{number}.1", job.id, "alice", placement, 1.0, gpu_info=info)
    return [JobSubmitted(job, at=0.0, by="alice"), AllocationMade(allocation, at=1.0, by="test")]


def test_two_launches_swap_in_one_commit() -> None:
    view = View().advance([*given_to(1, "GPU-0"), *given_to(2, "GPU-1")])
    facts = exchange(view, {"1.1": DEVICES[1:2], "2.1": DEVICES[:1]}, by="test", at=2.0)
    assert facts is not None
    after = view.advance(facts)
    assert after.holders == {"GPU-1": ("1.1",), "GPU-0": ("2.1",)}
    assert after.residents == view.residents
    assert after.given["a"] == ("GPU-0",)


def test_holders_stay_in_the_order_of_their_allocations() -> None:
    view = View().advance([*given_to(1, "GPU-0", share=500), *given_to(2, "GPU-1", share=500)])
    facts = exchange(view, {"1.1": DEVICES[1:2]}, by="test", at=2.0)
    assert facts is not None
    assert view.advance(facts).holders == {"GPU-1": ("1.1", "2.1")}


def test_the_record_of_the_chosen_devices_follows() -> None:
    view = View().advance(given_to(1, "a.gpu-0"))
    facts = exchange(view, {"1.1": DEVICES[3:]}, by="test", at=2.0)
    assert facts is not None
    (fact,) = facts
    assert isinstance(fact, DevicesExchanged)
    info = fact.allocation.gpu_info
    assert info is not None
    assert (info.indices, info.details[0].index, info.details[0].name) == ((3,), 3, "A100")


def test_a_device_that_another_job_keeps_is_not_given_again() -> None:
    view = View().advance([*given_to(1, "GPU-0"), *given_to(2, "GPU-1")])
    assert exchange(view, {"1.1": DEVICES[1:2]}, by="test", at=2.0) is None


def test_halves_may_meet_on_a_device_but_no_third() -> None:
    view = View().advance(
        [*given_to(1, "GPU-0", share=500), *given_to(2, "GPU-1", share=500), *given_to(3, "GPU-2", share=500)]
    )
    assert exchange(view, {"1.1": DEVICES[1:2]}, by="test", at=2.0)
    assert exchange(view, {"1.1": DEVICES[1:2], "3.1": DEVICES[1:2]}, by="test", at=2.0) is None


def test_what_is_not_live_or_has_another_number_of_devices_is_left_out() -> None:
    view = View().advance(given_to(1, "GPU-0"))
    assert exchange(view, {"1.1": DEVICES[:2], "9.1": DEVICES[:1], "1.1-3": DEVICES[:1]}, by="test", at=2.0) == []


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([250, 500, 1000])), max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), max_size=8),
)
def test_after_any_exchange_the_map_is_exact(jobs: list[tuple[int, int]], wishes: list[tuple[int, int]]) -> None:
    node = Node("a", DEVICES, 64_000, 1 << 20)
    inventory = [NodeObserved(node), *(ConditionObserved(DeviceCondition(one.uuid)) for one in DEVICES)]
    milli: Counter[str] = Counter()
    held = []
    for number, (place, share) in enumerate(jobs, 1):
        if milli[f"GPU-{place}"] + share <= 1000:
            milli[f"GPU-{place}"] += share
            held += given_to(number, f"GPU-{place}", share=share)
    draft = ViewDraft(View())
    draft.apply([*inventory, *held])
    warm = Capacity(draft)
    before = draft.view
    facts = exchange(before, {f"{number + 1}.1": (DEVICES[place],) for number, place in wishes}, by="test", at=2.0)
    for fact in facts or ():
        draft.apply([fact])
        warm.follow(fact)
    after = draft.view
    assert sum(after.allocated_milli(one.uuid) for one in DEVICES) == sum(milli.values())
    assert all(after.allocated_milli(one.uuid) <= 1000 for one in DEVICES)
    for uuid, holders in after.holders.items():
        assert all(uuid in after.allocations[one].placement.uuids for one in holders)
    assert {one for those in after.holders.values() for one in those} == after.allocations.keys()
    assert warm.state("a") == Capacity(ViewDraft(after)).state("a")
