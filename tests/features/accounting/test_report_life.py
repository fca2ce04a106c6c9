"""Reports over a real ledger and a real meter, through restarts, evictions, shares, set clocks and lost files."""

import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.clock import ManualClock
from corral.core.ledger.store import open_ledger
from corral.core.model.devices.device import DeviceProcess, DeviceSample
from corral.core.model.fact import AllocationEnded, AllocationMade, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.run_history import ReportBy, UsageBy
from corral.core.ports.ledger import Decided
from corral.features.accounting.accounts import Accounts
from corral.features.accounting.answers import Report
from corral.features.accounting.gpu_reports import GpuReports
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.meter import Meter
from corral.features.history.recording.meter_table import MeterTable

T0 = 472_222 * 3600.0 + 3590.25
UUIDS = ("GPU-a", "GPU-b")
MS = 3_600_000


class Life:
    """One server's life, with a device that is sampled each second."""

    def __init__(self, home: Path) -> None:
        self.home, self.clock, self.ids = home, ManualClock(T0), count(1)
        self.samples: dict[str, DeviceSample] = {}
        self.start()

    def start(self) -> None:
        self.ledger = open_ledger(f"sqlite:///{self.home}/ledger.db")
        self.file = HistoryFile(self.home / "history.db")
        self.meter = Meter(MeterTable(self.file), self.ledger.view, lambda: self.samples, self.clock, 1.0)
        self.reports = GpuReports(self.ledger, self.clock, self.meter)

    def stop(self, *, killed: bool) -> None:
        if not killed:
            self.meter.close()
        self.file.close()
        self.ledger.close()

    def act(self, kind: str, number: int) -> None:
        match kind:
            case "run":
                for _ in range(1 + number % 20):
                    self.run_second(number)
            case "start":
                self.begin(number)
            case "evict" | "fail" | "end":
                self.end(kind)
            case "kill" | "restart":
                self.stop(killed=kind == "kill")
                self.clock.advance(number % 30)
                self.start()
            case "set clock":
                self.clock.step(number - 50)
            case "lose meter":
                for path in self.home.glob("history.db*"):
                    path.unlink()

    def run_second(self, number: int) -> None:
        self.clock.advance(1.0)
        processes = tuple(
            DeviceProcess(pid, 10, user="u", job_id=allocation.job_id, utilization_pct=number % 50)
            for pid, allocation in enumerate(self.ledger.view().allocations.values())
        )
        for uuid in UUIDS:
            pct = None if number % 5 == 0 else number % 100
            self.samples[uuid] = DeviceSample(
                uuid, self.clock.now(), utilization_pct=pct, power_mw=100_000, processes=processes
            )
        self.meter.look()

    def begin(self, number: int) -> None:
        job_id, now = str(next(self.ids)), self.clock.now()
        spec = JobSpec(user="ab"[number % 2], project="xyz"[number % 3])
        grants = tuple(Grant(uuid, (100, 250, 1000)[number % 3]) for uuid in UUIDS[: 1 + number % 2])
        made = Allocation(f"{job_id}.1", job_id, spec.user, Placement((Member("n", grants),)), now)
        job = Job(job_id, int(job_id), spec, now, phase=Phase.RUNNING, launches=1)
        self.commit(JobSubmitted(job, at=now, by="t"), AllocationMade(made, at=now, by="t"))

    def end(self, kind: str) -> None:
        live, now = sorted(self.ledger.view().allocations.values(), key=lambda one: one.id), self.clock.now()
        if not live:
            return
        lost = live[0].created_at + 1 if kind == "evict" else None
        phase = {"fail": Phase.FAILED, "evict": Phase.PENDING}.get(kind, Phase.SUCCEEDED)
        job_id = live[0].job_id
        self.commit(
            JobChanged(job_id, {"phase": phase}, at=now, by="t"),
            AllocationEnded(live[0].id, job_id, lost, at=now, by="t"),
        )

    def commit(self, *facts: JobSubmitted | AllocationMade | JobChanged | AllocationEnded) -> None:
        self.ledger.commit(lambda _: Decided(facts, None)).result()


STEPS = st.sampled_from(
    ["run", "run", "run", "start", "evict", "fail", "end", "kill", "restart", "set clock", "lose meter"]
)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(0, 99)), max_size=25))
def test_whatever_happens_every_millisecond_is_one_thing_and_all_groupings_agree(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as home:
        life = Life(Path(home))
        life.begin(1)
        life.run_second(7)
        for kind, number in steps:
            life.act(kind, number)
        groupings = [[ReportBy.USER], [ReportBy.JOB, ReportBy.NODE], [ReportBy.PROJECT, ReportBy.HOUR], []]
        told = [life.reports.report(by) for by in groupings]
        used = Accounts(life.ledger, life.clock).usage(UsageBy.USER).total
        life.stop(killed=False)
    for one in told:
        assert one.total == told[0].total
        assert _added(one) == pytest.approx([getattr(one.total, name) for name in FIGURES], abs=0.001 / MS)
        for row in one.rows:
            assert min(row.used_hours, row.idle_hours, row.unmetered_hours) >= 0
            assert row.gpu_hours * MS == pytest.approx(
                (row.used_hours + row.idle_hours + row.unmetered_hours) * MS, abs=0.001
            )
    assert told[0].total.gpu_hours * MS == pytest.approx(used.gpu_hours * MS, abs=2 * len(steps) + 2)


FIGURES = ("gpu_hours", "used_hours", "idle_hours", "unmetered_hours", "wasted_hours", "reserved_hours")


def _added(found: Report) -> list[float]:
    return [sum(getattr(row, name) for row in found.rows) for name in FIGURES]
