"""Jobs on a device that falls sick: who moves, who stays, who is held, and who pays."""

from dataclasses import replace

import pytest

from corral.core.lifecycle import commands, device_faults, ending, starting
from corral.core.lifecycle.device_faults import device_fell_sick
from corral.core.lifecycle.past_attempts import attempts_of
from corral.core.model.devices.health import DeviceHealth, Health, HealthSign, SignKind, Verdict
from corral.core.model.fact import (
    AllocationEnded,
    CheckpointsObserved,
    DeviceHealthChanged,
    Fact,
    JobRequeued,
    NodeObserved,
    SiteArranged,
    StartsPromised,
)
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.job_patch import JobPatch, patched
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.site_faults import AVOIDED_S, OnFault
from corral.core.model.placing.allocation import Grant, Member, Placement, Promise
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.queues.queue import Limits, Queue
from corral.core.model.runs.attempt import AttemptEnd
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.view import View
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import BACKOFF, phases, place, started

SICK = DeviceHealth(Health.QUARANTINED, "Xid 79: it has fallen off the bus", 300.0, kinds=(SignKind.XID,))
XID_94 = HealthSign(SignKind.XID, Verdict.SUSPECT, "Xid 94: a contained memory error", 300.0, code=94, ends_job=True)


def running(view: View, job_id: str, *indices: int) -> View:
    view = started(view, job_id, *indices)
    return view.advance(starting.running(view, view.jobs[job_id], 201.0, by="test", at=201.0))


def sickened(view: View, uuid: str = "GPU-0", at: float = 300.0) -> list[Fact]:
    return [DeviceHealthChanged(uuid, SICK, at=at, by="test"), *device_fell_sick(view, uuid, SICK, at)]


def ended(view: View, job_id: str = "1", at: float = 303.0) -> list[Fact]:
    report = LaunchReport(f"{job_id}.1", LaunchPhase.EXITED, 201.0, at, exit_code=1, ending=Phase.FAILED)
    return ending.ended(view, view.jobs[job_id], report, by="test", at=at, backoff=BACKOFF)


def moved(view: View, job_id: str, index: int, at: float = 300.0) -> View:
    """The view after a job ran on a device that fell sick, and was stopped."""
    view = running(view, job_id, index)
    view = view.advance(sickened(view, f"GPU-{index}", at))
    return view.advance(ended(view, job_id, at + 3.0))


def with_slices(view: View) -> View:
    """The view once the first device is cut into two slices."""
    node = view.nodes["box"]
    parts = (replace(node.devices[0], uuid=f"MIG-{n}", index=8 + n, parent_uuid="GPU-0") for n in (0, 1))
    return view.advance([NodeObserved(replace(node, devices=(*node.devices, *parts)))])


def fault(one: Job, on_fault: OnFault | None, **spec: object) -> Job:
    return replace(one, spec=replace(one.spec, on_fault=on_fault, **spec))  # type: ignore[arg-type]


def test_a_job_with_retries_goes_back_to_its_queue_uses_up_no_retry_and_keeps_off_the_device() -> None:
    view = running(with_jobs(box(), job(1, retries=1)), "1", 0)
    view = view.advance(sickened(view))
    stopping = view.jobs["1"]
    assert (stopping.phase, stopping.stop_reason) == (Phase.STOPPING, Phase.PENDING)
    assert stopping.reason == "GPU 0 fell sick: Xid 79: it has fallen off the bus"
    view = view.advance(ended(view))
    again = view.jobs["1"]
    assert (again.phase, again.site_faults, again.evictions, again.eligible_at) == (Phase.PENDING, 1, 0, None)
    assert again.spec.request.avoided == (("GPU-0", 300.0),)
    view = running(view, "1", 1)
    assert phases(ended(view, at=400.0), "1") == [Phase.FAILED, Phase.PENDING], "its own failure has a retry left"


def test_a_job_without_retries_and_checkpoints_is_left_until_it_ends_and_it_is_told() -> None:
    view = running(with_jobs(box(), job(1)), "1", 0)
    view = view.advance(sickened(view))
    assert view.jobs["1"].phase is Phase.RUNNING
    said = "GPU 0 fell sick: Xid 79: it has fallen off the bus; it is left there until it ends"
    assert device_faults.stays_on(view, "1.1") == said
    assert device_faults.left_there(view) == {"1.1": said}


def test_the_job_decides_before_its_queue_and_the_queue_before_the_rule() -> None:
    queue = SiteArranged((Queue("default", on_fault=OnFault.REQUEUE),))
    view = box().advance([queue])
    assert device_faults.on_fault(view, job(1).spec) is OnFault.REQUEUE
    assert device_faults.on_fault(view, fault(job(1, retries=2), OnFault.LEAVE).spec) is OnFault.LEAVE
    assert device_faults.on_fault(box(), job(1).spec) is OnFault.LEAVE
    assert device_faults.on_fault(box(), job(1, retries=1).spec) is OnFault.REQUEUE
    for saves in ({"checkpoint_signal": "USR1"}, {"checkpoint_dir": "saved"}):
        assert device_faults.on_fault(box(), fault(job(1), None, **saves).spec) is OnFault.REQUEUE


def test_a_job_is_signalled_first_only_if_it_wants_that() -> None:
    for wanted, saves in ((OnFault.CHECKPOINT, True), (OnFault.REQUEUE, False)):
        view = running(with_jobs(box(), fault(job(1), wanted, checkpoint_signal="USR1")), "1", 0)
        eviction = view.advance(sickened(view)).jobs["1"].evicted
        assert eviction is not None
        assert (eviction.rule, eviction.saves) == (EvictionRule.FAULT, saves)


def test_all_jobs_of_a_shared_device_move_and_jobs_elsewhere_do_not() -> None:
    half = Placement((Member("box", (Grant("GPU-0", 500),)),))
    view = with_jobs(box(), *[job(n, retries=1) for n in (1, 2, 3)])
    for one in ("1", "2"):
        view = view.advance(starting.start(view.jobs[one], half, by="test", at=200.0))
    view = running(view, "3", 1)
    view = view.advance(sickened(view))
    assert [view.jobs[one].phase for one in "123"] == [Phase.STOPPING, Phase.STOPPING, Phase.RUNNING]


def test_a_gang_moves_whole_and_keeps_off_the_sick_device_alone() -> None:
    view = running(with_jobs(box(), job(1, gpus=2, retries=1)), "1", 0, 1)
    view = view.advance(sickened(view))
    view = view.advance(ended(view))
    assert not view.holders
    assert view.jobs["1"].spec.request.avoided == (("GPU-0", 300.0),)


def test_a_job_is_requeued_for_faults_only_so_often_and_then_its_own_retries_count() -> None:
    view = with_jobs(box().advance([SiteArranged(limits=Limits(site_retries=1))]), job(1, retries=1))
    view = moved(view, "1", 0, at=300.0)
    far = 300.0 + AVOIDED_S
    view = running(view, "1", 1)
    view = view.advance(sickened(view, "GPU-1", far))
    assert view.jobs["1"].stop_reason is Phase.FAILED
    assert "it was requeued for such faults 1 time before" in (view.jobs["1"].reason or "")
    assert phases(ended(view, at=far + 3), "1") == [Phase.FAILED, Phase.PENDING]


def test_a_job_under_which_two_devices_fell_sick_is_held_and_a_fault_of_last_week_does_not_count() -> None:
    view = moved(with_jobs(box(), job(1, retries=1), job(2, retries=1)), "1", 0)
    assert not view.jobs["1"].held
    soon = moved(view, "1", 1, at=400.0).jobs["1"]
    assert (soon.phase, soon.held) == (Phase.PENDING, True)
    assert (soon.held_because or "").startswith("2 GPUs fell sick while it ran there")
    late = moved(view, "1", 1, at=400.0 + AVOIDED_S).jobs["1"]
    assert (late.held, late.spec.request.avoided) == (False, (("GPU-1", 400.0 + AVOIDED_S),))


def test_devices_of_one_job_that_fall_sick_together_hold_it_too() -> None:
    view = running(with_jobs(box(), job(1, gpus=2, retries=1)), "1", 0, 1)
    for uuid in ("GPU-0", "GPU-1"):
        view = view.advance(sickened(view, uuid))
    view = view.advance(ended(view))
    assert view.jobs["1"].held
    assert view.jobs["1"].site_faults == 1


def test_the_avoidance_ends_in_time_or_when_a_waiting_job_is_released() -> None:
    view = moved(with_jobs(box(), job(1, retries=1)), "1", 0)
    assert device_faults.aged(view, 300.0 + AVOIDED_S - 1) == []
    assert view.advance(device_faults.aged(view, 300.0 + AVOIDED_S)).jobs["1"].spec.request.avoided == ()
    released = view.advance(commands.release(view, view.jobs["1"], by="alice", at=400.0))
    assert released.jobs["1"].spec.request.avoided == ()


def test_reservations_and_adopted_processes_stay() -> None:
    for kind in (JobKind.RESERVE, JobKind.ADOPT):
        view = running(with_jobs(box(), fault(job(1), OnFault.REQUEUE, kind=kind)), "1", 0)
        assert view.advance(device_fell_sick(view, "GPU-0", SICK, 300.0)).jobs == view.jobs
        assert device_faults.left_there(view.advance(sickened(view)))


def test_a_job_whose_input_was_read_is_left_because_it_cannot_run_again() -> None:
    view = with_jobs(box(), replace(job(1, retries=1), input_taken=True))
    view = running(view, "1", 0)
    assert view.advance(sickened(view)).jobs["1"].phase is Phase.RUNNING


def test_nobody_pays_for_the_time_that_a_fault_has_cost() -> None:
    view = running(with_jobs(box(), job(1, retries=1)), "1", 0)
    view = view.advance(sickened(view))
    facts = ended(view)
    assert [f.unbilled_from for f in facts if isinstance(f, AllocationEnded)] == [200.0]
    after = view.advance(facts)
    assert (after.usage, after.spent, after.served) == ({}, {}, {})


def test_what_is_in_a_checkpoint_is_paid() -> None:
    view = running(with_jobs(box(), job(1, retries=1)), "1", 0)
    view = view.advance([CheckpointsObserved({"1.1": 260.0})])
    view = view.advance(sickened(view))
    facts = ended(view)
    assert [f.unbilled_from for f in facts if isinstance(f, AllocationEnded)] == [260.0]
    assert view.advance(facts).jobs["1"].lost_s == 43.0


def test_what_was_saved_before_a_fault_is_paid() -> None:
    view = running(with_jobs(box(), fault(job(1), OnFault.CHECKPOINT, checkpoint_signal="USR1")), "1", 0)
    view = view.advance(sickened(view))
    view = view.advance(ended(view, at=330.0))
    ((_, usage),) = view.usage.items()
    assert (usage.gpu_s, usage.at) == (100.0, 300.0)


def test_a_supervisor_that_dies_with_its_device_changes_nothing_for_the_job() -> None:
    view = running(with_jobs(box(), job(1, retries=1)), "1", 0)
    view = view.advance(sickened(view))
    dead = LaunchReport("1.1", LaunchPhase.DEAD)
    facts = ending.ended(view, view.jobs["1"], dead, by="test", at=303.0, backoff=BACKOFF)
    assert phases(facts, "1") == [Phase.PENDING]


def test_a_job_that_is_cancelled_meanwhile_stays_cancelled() -> None:
    view = running(with_jobs(box(), job(1, retries=1)), "1", 0)
    view = view.advance(sickened(view))
    view = view.advance(commands.cancel(view, view.jobs["1"], by="alice", at=301.0))
    assert phases(ended(view), "1") == [Phase.CANCELLED]


def test_a_waiting_job_is_told_that_its_promise_is_off() -> None:
    view = running(with_jobs(box(), job(1), job(2)), "1", 0)
    view = view.advance([StartsPromised((Promise("2", place(0), 900.0),))])
    (note,) = view.advance(sickened(view)).jobs["2"].spec.notes
    assert note == "GPU 0 fell sick: Xid 79: it has fallen off the bus; its promised start there is off"


def test_a_job_is_blamed_only_on_its_own_device() -> None:
    view = running(with_jobs(box(), job(1)), "1", 0)
    assert device_faults.blamed(view, "GPU-0", "1") == view.jobs["1"]
    assert device_faults.blamed(view, "GPU-1", "1") is None
    assert device_faults.blamed(view, "GPU-0", "9") is None
    assert device_faults.error_reason(view, "GPU-0", XID_94) == "an error on GPU 0: Xid 94: a contained memory error"


def test_a_job_on_a_slice_is_blamed_for_an_error_of_the_whole_device() -> None:
    view = with_slices(with_jobs(box(), job(1)))
    slice_0 = Placement((Member("box", (Grant("MIG-0", 1000),)),))
    view = view.advance(starting.start(view.jobs["1"], slice_0, by="test", at=200.0))
    assert device_faults.blamed(view, "GPU-0", "1") == view.jobs["1"]
    assert device_faults.blamed(view, "GPU-0", None) is None


def test_an_attempt_that_a_fault_ended_says_so() -> None:
    view = with_jobs(box(), job(1, retries=1))
    begun = [*starting.start(view.jobs["1"], place(0), by="test", at=200.0)]
    view = view.advance(begun)
    begun += (ran := starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    view = view.advance(ran)
    begun += (stop := sickened(view))
    view = view.advance(stop)
    (attempt,) = attempts_of(fact for fact in [*begun, *ended(view)] if fact.about == "1")
    assert attempt.ended_as is AttemptEnd.FAULT
    assert attempt.reason == "stopped: GPU 0 fell sick: Xid 79: it has fallen off the bus"


def test_a_job_that_met_the_fault_first_is_tried_again_at_once_and_uses_up_no_retry() -> None:
    view = running(with_jobs(box(), job(1, retries=1)), "1", 0)
    view = view.advance(ended(view, at=299.0))
    assert view.jobs["1"].eligible_at is not None
    again = view.advance(sickened(view)).jobs["1"]
    assert (again.eligible_at, again.site_faults, again.spec.request.avoided) == (None, 1, (("GPU-0", 300.0),))


def test_an_attempt_that_met_the_faults_of_two_devices_is_forgiven_once() -> None:
    view = running(with_jobs(box(), job(1, gpus=2, retries=1)), "1", 0, 1)
    view = view.advance(ended(view, at=299.0))
    for uuid in ("GPU-0", "GPU-1"):
        view = view.advance(sickened(view, uuid))
    again = view.jobs["1"]
    assert (again.site_faults, len(again.spec.request.avoided), again.held) == (1, 2, True)


def test_a_job_that_failed_for_good_on_the_device_just_before_waits_again() -> None:
    view = running(with_jobs(box(), fault(job(1), OnFault.REQUEUE)), "1", 0)
    over: JobPatch = {"phase": Phase.FAILED, "ended_at": 290.0, "exit_code": 1}
    failed = patched(view.jobs["1"], over)
    (fact,) = device_faults.forgiven(view, failed, "GPU-0", SICK, 300.0)
    assert isinstance(fact, JobRequeued)
    assert (fact.job.phase, fact.job.site_faults, fact.job.reason) == (Phase.PENDING, 1, None)


@pytest.mark.parametrize(
    ("ended_at", "code", "uuid"), [(269.0, 1, "GPU-0"), (290.0, 0, "GPU-0"), (290.0, 1, "GPU-1")], ids=str
)
def test_an_end_long_before_or_well_or_elsewhere_has_another_reason(ended_at: float, code: int, uuid: str) -> None:
    over = replace(job(1), phase=Phase.FAILED, devices=("GPU-0",), ended_at=ended_at, exit_code=code)
    assert not device_faults.failed_there(over, uuid, 300.0)
