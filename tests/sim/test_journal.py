"""The journal run again: what is taken from it, and what another policy or more GPUs would have changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.core.model.fact import AllocationEnded, AllocationMade, Fact, JobChanged, JobSubmitted, JobUpdated
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, ChosenDevice, GpuInfo, Grant, Member, Placement
from corral.sim.replays.journal import Faults, read_journal, recorded_jobs, recorded_nodes, simulate
from tests.core.scheduling.lab import A100, T0, job


def story(one: Job, uuid: str, started_at: float, ended_at: float) -> list[Fact]:
    """The facts of one job that ran on one device of the node "box"."""
    number = int(uuid.rpartition("-")[2])
    allocation = Allocation(
        f"{one.id}.1",
        one.id,
        one.spec.user,
        Placement((Member("box", (Grant(uuid, 1000),)),)),
        started_at,
        gpu_info=GpuInfo(1, (number,), "availability", (ChosenDevice(number, A100, 81_000, 0, 1.0),)),
    )
    return [
        JobSubmitted(one, at=one.submitted_at, by="alice"),
        JobChanged(one.id, {"phase": Phase.STARTING}, at=started_at, by="test"),
        AllocationMade(allocation, at=started_at, by="test"),
        JobChanged(one.id, {"phase": Phase.RUNNING, "started_at": started_at}, at=started_at, by="test"),
        JobChanged(one.id, {"phase": Phase.SUCCEEDED, "ended_at": ended_at}, at=ended_at, by="test"),
        AllocationEnded(allocation.id, one.id, at=ended_at, by="test"),
    ]


LONG = job(1, submitted_at=T0, time_limit_s=1000, min_memory_mib=40_960)
SHORT = job(2, submitted_at=T0, time_limit_s=10, user="bob")
PAST = [*story(LONG, "GPU-0", T0, T0 + 1000), *story(SHORT, "GPU-0", T0 + 1000, T0 + 1010)]


def test_runs_are_as_long_as_they_were_and_devices_those_that_were_used() -> None:
    assert [(one.job.id, one.ran_s) for one in recorded_jobs(PAST)] == [("1", 1000), ("2", 10)]
    (node,) = recorded_nodes(PAST)
    assert [(device.uuid, device.model) for device in node.devices] == [("GPU-0", A100)]


def test_a_job_that_never_started_is_left_out_and_one_that_runs_ends_with_the_journal() -> None:
    facts = [*PAST, JobSubmitted(job(3, submitted_at=T0 + 2000), at=T0 + 2000, by="alice")]
    facts += story(job(4, submitted_at=T0 + 1500), "GPU-0", T0 + 1500, T0 + 1600)[:4]
    assert [(one.job.id, one.ended_at) for one in recorded_jobs(facts)][2:] == [("4", T0 + 2000)]


def test_a_job_that_was_changed_is_run_again_as_it_was_then() -> None:
    submitted, *ran = story(job(1, submitted_at=T0, time_limit_s=1000), "GPU-0", T0, T0 + 50)
    changed = JobUpdated("1", {"time_limit_s": 60.0, "priority": 2}, {"time_limit_s": 1000.0}, at=T0, by="alice")
    (one,) = recorded_jobs([submitted, changed, *ran])
    assert (one.job.spec.time_limit_s, one.job.spec.priority, one.ran_s) == (60.0, 2, 50)


def test_a_job_with_a_begin_time_comes_when_it_may_begin() -> None:
    begins = job(3, submitted_at=T0, begin_at=T0 + 500, eligible_at=T0 + 500)
    report = simulate(story(begins, "GPU-0", T0 + 500, T0 + 600), policy="fcfs")
    assert (report["recorded"]["mean_wait_s"], report["simulated"]["mean_wait_s"]) == (0, 0)
    assert report["simulated"]["ended_at"] == T0 + 600


def test_another_policy_is_compared_with_what_happened() -> None:
    report = simulate(PAST, policy="sjf")
    assert report["recorded"]["mean_wait_s"] == 500
    assert report["simulated"]["mean_wait_s"] == 5
    assert report["simulated"]["mean_wait_s_by_user"] == {"alice": 10, "bob": 0}


def test_more_gpus_leave_nobody_waiting() -> None:
    report = simulate(PAST, policy="fcfs", add_gpus=1)
    assert (report["gpus"], report["simulated"]["max_wait_s"]) == (2, 0)


def test_failures_can_be_tried_too() -> None:
    report = simulate(PAST, policy="fcfs", faults=Faults(mtbf_s=300, repair_s=50))
    assert report["breakdowns"] > 0
    assert report["simulated"]["ended_at"] > report["recorded"]["ended_at"]


def test_an_empty_journal_is_refused_in_words() -> None:
    with pytest.raises(Refused, match="no job that has started"):
        simulate([], policy="fcfs")


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no ledger"):
        read_journal(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert list(tmp_path.iterdir()) == []


def test_who_may_not_read_a_ledger_is_told_for_whom_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ledger.db").touch()
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read everything
    with pytest.raises(Refused, match="for those who may read the server's files"):
        read_journal(f"sqlite:///{tmp_path / 'ledger.db'}")


def test_the_requests_of_the_past_are_asked_for_again() -> None:
    wide = replace(LONG, id="7", sequence=7, spec=replace(LONG.spec, request=replace(LONG.spec.request, devices=2)))
    facts = story(LONG, "GPU-0", T0, T0 + 10) + story(SHORT, "GPU-1", T0, T0 + 10)
    facts += story(wide, "GPU-0", T0 + 10, T0 + 20)
    assert simulate(facts, policy="fcfs")["simulated"]["ended_at"] == T0 + 20
