from dataclasses import replace

from corral.core.model.devices.device import Device, DeviceCondition, DeviceProcess, DeviceState, Node
from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    ConditionObserved,
    DeviceCordoned,
    DeviceUncordoned,
    JobChanged,
    JobSubmitted,
    NodeObserved,
    NodeRemoved,
)
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View, ViewDraft
from tests.core.control.strategies import box, job


def allocation(number: int, *uuids: str) -> Allocation:
    grants = tuple(Grant(uuid, 1000) for uuid in uuids)
    return Allocation(f"{number}.1", str(number), "alice", Placement((Member("box", grants),)), 0.0)


def test_a_view_is_never_changed_only_succeeded() -> None:
    before = box()
    after = before.advance(
        [JobSubmitted(job(1), at=0.0, by="alice"), AllocationMade(allocation(1, "GPU-0"), at=0.0, by="test")]
    )
    assert not before.jobs
    assert not before.holders
    assert after.holders == {"GPU-0": ("1.1",)}
    assert {name: list(ids) for name, ids in after.residents.items()} == {
        after.allocations["1.1"].placement.members[0].node: ["1.1"]
    }
    assert after.version == before.version + 2


def test_devices_come_back_when_an_allocation_ends() -> None:
    held = box().advance([AllocationMade(allocation(1, "GPU-0", "GPU-1"), at=0.0, by="test")])
    assert held.allocated_milli("GPU-1") == 1000
    free = held.advance([AllocationEnded("1.1", "1", at=1.0, by="test")])
    assert (free.holders, free.residents) == ({}, {})


def test_a_job_that_ended_is_seen_until_the_view_is_published() -> None:
    draft = ViewDraft(box().advance([JobSubmitted(job(1), at=0.0, by="alice")]))
    draft.apply([JobChanged("1", {"phase": Phase.CANCELLED}, at=1.0, by="test")])
    assert draft.view.jobs["1"].phase is Phase.CANCELLED
    assert "1" not in draft.freeze().jobs


def test_a_job_that_failed_and_waits_again_stays() -> None:
    waiting = box().advance([JobSubmitted(job(1), at=0.0, by="alice")])
    failed = [
        JobChanged("1", {"phase": Phase.FAILED}, at=1.0, by="test"),
        JobChanged("1", {"phase": Phase.PENDING}, at=1.0, by="test"),
    ]
    assert waiting.advance(failed).jobs["1"].phase is Phase.PENDING


def test_followers_are_found_by_whom_they_follow() -> None:
    view = View().advance(
        [JobSubmitted(job(1), at=0.0, by="alice"), JobSubmitted(job(2, after=("1",)), at=0.0, by="alice")]
    )
    assert view.dependants == {"1": {"2": None}}
    assert view.advance([JobChanged("2", {"waits_for": ()}, at=1.0, by="test")]).dependants == {}


class CountedId(str):
    """A job's id that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedId.compared += 1
        return str.__eq__(self, other)


def test_the_end_of_one_of_many_parents_is_not_compared_with_all_the_others_again_and_again() -> None:
    parents = tuple(CountedId(f"1_{index}") for index in range(500))
    follower = replace(job(2), waits_for=parents)
    view = View().advance([JobSubmitted(follower, at=0.0, by="alice")])
    left = tuple(CountedId(parent) for parent in parents[1:])
    CountedId.compared = 0
    view = view.advance([JobChanged("2", {"waits_for": left}, at=1.0, by="test")])
    assert CountedId.compared < 10 * len(parents)
    assert sorted(view.dependants) == sorted(left)


def test_the_followers_of_one_job_are_not_compared_with_one_another() -> None:
    followers = [replace(job(number), id=CountedId(number), waits_for=("1",)) for number in range(2, 502)]
    CountedId.compared = 0
    view = View().advance(
        [JobSubmitted(job(1), at=0.0, by="alice"), *[JobSubmitted(each, at=0.0, by="alice") for each in followers]]
    )
    assert list(view.dependants["1"]) == [each.id for each in followers]
    CountedId.compared = 0
    view = view.advance([JobChanged(each.id, {"waits_for": ()}, at=1.0, by="test") for each in followers])
    assert view.dependants == {}
    assert CountedId.compared < 10 * len(followers)


def test_a_view_keeps_its_followers_when_a_later_one_has_fewer() -> None:
    view = View().advance([JobSubmitted(job(n, after=("1",) if n > 1 else ()), at=0.0, by="alice") for n in (1, 2, 3)])
    later = view.advance([JobChanged("2", {"waits_for": ()}, at=1.0, by="test")])
    assert (list(view.dependants["1"]), list(later.dependants["1"])) == (["2", "3"], ["3"])


def test_a_cordon_outlasts_every_later_measurement() -> None:
    cordoned = box().advance([DeviceCordoned("GPU-0", "fan is loud", by="root", at=1.0)])
    measured = cordoned.advance([ConditionObserved(DeviceCondition("GPU-0", utilization_pct=3))])
    assert measured.conditions["GPU-0"].cordoned == "fan is loud"
    assert measured.advance([DeviceUncordoned("GPU-0", by="root", at=2.0)]).conditions["GPU-0"].cordoned is None


def test_a_node_that_left_is_gone() -> None:
    assert not box().advance([NodeRemoved("box")]).nodes


def test_the_state_of_a_device_is_the_first_that_applies() -> None:
    stranger = (DeviceProcess(1),)
    sick = DeviceCondition("GPU-0", unhealthy="hot", cordoned="fan", strangers=stranger)
    assert sick.state(allocated=True) is DeviceState.UNHEALTHY
    used = DeviceCondition("GPU-0", strangers=stranger)
    assert used.state(allocated=True) is DeviceState.ALLOCATED
    assert used.state(reserved=True) is DeviceState.RESERVED
    assert used.state() is DeviceState.IN_USE
    assert DeviceCondition("GPU-0", strangers=stranger, stale=True).state() is DeviceState.STALE
    assert DeviceCondition("GPU-0").state() is DeviceState.FREE


def test_a_draft_costs_one_copy_however_many_deltas() -> None:
    draft = ViewDraft(View())
    draft.apply([JobSubmitted(Job("0", 0, JobSpec("al"), 0.0), at=0.0, by="alice")])
    jobs = draft.view.jobs
    draft.apply([JobSubmitted(Job("1", 1, JobSpec("al"), 0.0), at=0.0, by="alice")])
    assert draft.view.jobs is jobs


def test_a_device_is_called_by_its_node_where_there_are_several() -> None:
    one = View().advance([NodeObserved(Node("a", (Device("GPU-a", 3, "A100", 81_920),), 1000, 1024))])
    assert one.device_names() == {"GPU-a": "GPU 3"}
    two = one.advance([NodeObserved(Node("b", (Device("GPU-b", 3, "A100", 81_920),), 1000, 1024))])
    assert two.device_names() == {"GPU-a": "GPU a:3", "GPU-b": "GPU b:3"}
