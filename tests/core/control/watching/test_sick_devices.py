"""Jobs on devices that fell sick, and errors that jobs make there, over a real ledger."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.control.watching.job_errors import JobErrors
from corral.core.control.watching.memory_guard import Stopper
from corral.core.control.watching.sick_devices import SickDevices
from corral.core.ledger.store import open_ledger
from corral.core.lifecycle.device_faults import device_fell_sick
from corral.core.model.devices.device import DeviceSample
from corral.core.model.devices.health import DeviceHealth, Health, HealthSign, SignKind, Verdict
from corral.core.model.fact import AllocationEnded, DeviceHealthChanged, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.site_faults import AVOIDED_S, OnFault
from corral.core.ports.ledger import Decided
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted

FIRST = "GPU-box-0"


class Rig:
    """A node of two GPUs with jobs on it, over a real ledger. It stands for the samples, too."""

    def __init__(self, path: Path) -> None:
        self.ledger = open_ledger(f"sqlite:///{path / 'ledger.db'}")
        self.clock = ManualClock(T0)
        self.told: list[tuple[str, str]] = []
        self.stopped: list[str] = []
        self.signs: tuple[HealthSign, ...] = ()
        self.devices = SickDevices(self.ledger, self.clock, lambda job_id, line: self.told.append((job_id, line)))
        self.errors = JobErrors(self.ledger, self, Stopper(self.ledger, self.clock, self.stopped.append))
        self.ledger.observe(observed(box(gpus=2)))  # type: ignore[arg-type]

    def latest(self) -> dict[str, DeviceSample]:
        return {FIRST: DeviceSample(FIRST, self.clock.now(), signs=self.signs)}

    def write(self, *facts: object) -> None:
        self.ledger.commit(lambda _: Decided(facts, None)).result()  # type: ignore[arg-type]

    def run(self, *jobs: Job) -> None:
        self.write(*submitted(*jobs))
        for start in Planner(self.ledger.view()).plan(T0).starts:
            self.write(*started(start))

    def fail(self, job_id: str) -> None:
        at = self.clock.now()
        over = {"phase": Phase.FAILED, "exit_code": 1, "ended_at": at}
        self.write(
            JobChanged(job_id, over, at=at, by="test"),  # type: ignore[arg-type]
            AllocationEnded(f"{job_id}.1", job_id, at=at, by="test"),
        )

    def sicken(self) -> None:
        at = self.clock.now()
        health = DeviceHealth(Health.QUARANTINED, "Xid 79", at, relapses=1)
        self.write(DeviceHealthChanged(FIRST, health, at=at, by="test"))
        self.ledger.commit(lambda view: Decided(tuple(device_fell_sick(view, FIRST, health, at)), None)).result()

    def errs(self, code: int, job_id: str | None = "1", *, verdict: Verdict = Verdict.BLAMES_JOB) -> None:
        ends = verdict is not Verdict.BLAMES_JOB
        sign = HealthSign(SignKind.XID, verdict, f"Xid {code}", self.clock.now(), code, ends_job=ends, job_id=job_id)
        self.signs = (sign,)
        self.errors.look()

    def job(self, job_id: str = "1") -> Job:
        return self.ledger.view().jobs[job_id]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.ledger.close()


def wanting(number: int, on_fault: OnFault, **options: object) -> Job:
    return replace(made := job(number, **options), spec=replace(made.spec, on_fault=on_fault))  # type: ignore[arg-type]


def test_the_user_of_a_job_that_is_left_is_told_once(rig: Rig) -> None:
    rig.run(job(1))
    rig.sicken()
    rig.devices.look()
    rig.devices.look()
    assert rig.told == [("1", "GPU 0 fell sick: Xid 79; it is left there until it ends")]


def test_a_job_that_failed_for_good_just_before_its_device_fell_sick_waits_again_once(rig: Rig) -> None:
    rig.run(wanting(1, OnFault.REQUEUE), wanting(2, OnFault.LEAVE))
    for one in "12":
        rig.fail(one)
    rig.clock.advance(2.0)
    rig.sicken()
    rig.devices.look()
    again = rig.job("1")
    assert (again.phase, again.site_faults, again.spec.request.avoids(box().devices[0])) == (Phase.PENDING, 1, True)
    assert "2" not in rig.ledger.view().jobs
    rig.devices.look()
    assert rig.job("1").site_faults == 1


def test_a_server_that_starts_just_after_a_device_fell_sick_looks_for_its_jobs_too(rig: Rig) -> None:
    rig.run(wanting(1, OnFault.REQUEUE))
    rig.fail("1")
    rig.clock.advance(2.0)
    rig.sicken()
    rig.clock.advance(60.0)
    SickDevices(rig.ledger, rig.clock, lambda job_id, line: None).look()
    assert rig.job("1").phase is Phase.PENDING


def test_a_job_that_failed_long_before_stays_failed(rig: Rig) -> None:
    rig.run(wanting(1, OnFault.REQUEUE))
    rig.fail("1")
    rig.clock.advance(60.0)
    rig.sicken()
    rig.devices.look()
    assert "1" not in rig.ledger.view().jobs


def test_the_avoidance_of_a_device_ends_in_time(rig: Rig) -> None:
    rig.run(job(1))
    rig.sicken()
    assert rig.job().spec.request.avoided
    rig.clock.advance(AVOIDED_S)
    rig.devices.look()
    assert not rig.job().spec.request.avoided


def test_an_error_that_blames_the_job_ends_it_failed_with_the_error_and_only_once(rig: Rig) -> None:
    rig.run(job(1))
    rig.errs(31)
    assert (rig.job().phase, rig.job().stop_reason) == (Phase.STOPPING, Phase.FAILED)
    assert rig.job().reason == "an error on GPU 0: Xid 31"
    rig.errors.look()
    assert rig.stopped == ["1.1"]


def test_an_error_that_ends_the_job_leaves_the_device_to_others_but_a_fault_of_the_site_is_not_the_jobs(
    rig: Rig,
) -> None:
    rig.run(job(1))
    rig.errs(79, verdict=Verdict.QUARANTINE)
    assert rig.job().phase is Phase.RUNNING
    rig.errs(94, verdict=Verdict.SUSPECT)
    assert rig.job().stop_reason is Phase.FAILED


def test_on_a_shared_device_only_the_job_that_its_node_names_is_blamed(rig: Rig) -> None:
    rig.run(job(1, share_milli=500), job(2, share_milli=500))
    rig.errs(31, None)
    assert rig.stopped == []
    rig.errs(13, "2")
    assert rig.stopped == ["2.1"]


def test_after_a_restart_the_job_that_is_left_is_not_blamed_for_an_error_of_one_that_has_ended(rig: Rig) -> None:
    rig.run(job(1, share_milli=500), job(2, share_milli=500))
    rig.errs(31, None)
    rig.fail("1")
    JobErrors(rig.ledger, rig, Stopper(rig.ledger, rig.clock, rig.stopped.append)).look()
    assert rig.stopped == []


def test_a_job_that_came_after_the_error_is_not_blamed(rig: Rig) -> None:
    rig.signs = (HealthSign(SignKind.XID, Verdict.BLAMES_JOB, "Xid 31", T0 - 5.0, 31, job_id="1"),)
    rig.run(job(1))
    rig.errors.look()
    assert rig.stopped == []
