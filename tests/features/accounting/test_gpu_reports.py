"""A report is of the same time as usage, with what was measured of it and what it costs."""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.price import Price
from corral.core.model.errors import Refused
from corral.core.model.fact import AllocationEnded, AllocationMade, Fact, JobChanged, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.placing.allocation import Allocation, ChosenDevice, GpuInfo, Grant, Member, Placement
from corral.core.model.runs.run_history import MeteredHour, ReportBy, UsageBy
from corral.core.ports.ledger import Decided
from corral.features.accounting import gpu_reports as reports
from corral.features.accounting.accounts import Accounts
from corral.features.accounting.gpu_reports import GpuReports
from corral.features.accounting.report_table import report_lines

NOW = 472_222 * 3600.0
HOUR_MS = 3_600_000


@dataclass
class Measures:
    """What was measured, by hand."""

    rows: list[MeteredHour] = field(default_factory=list)

    def hours(self, first: int, last: int) -> Iterator[list[MeteredHour]]:
        yield [row for row in self.rows if first <= row.hour <= last]

    def hours_of(self, allocations: Collection[str], first: int, last: int) -> Iterator[list[MeteredHour]]:
        yield [row for row in self.rows if first <= row.hour <= last and row.allocation_id in allocations]


@dataclass
class Site:
    """A ledger in which alice has held half of GPU-0 for two hours and holds it, and bob had a gone GPU; or `alone`."""

    ledger: SqlLedger
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    measures: Measures = field(default_factory=Measures)
    prices: tuple[Price, ...] = ()
    alone: bool = False

    def __post_init__(self) -> None:
        devices = tuple(Device(f"GPU-{number}", number, "NVIDIA A100", 81920) for number in range(2))
        self.ledger.observe([NodeObserved(Node("n", devices, 8000, 32768))])
        if self.alone:
            return
        self.hold("1", "alice", "GPU-0", 500, begin=NOW - 7200, end=None)
        self.hold("2", "bob", "GPU-gone", 1000, begin=NOW - 3600, end=NOW - 1800)

    def hold(
        self,
        job_id: str,
        user: str,
        uuid: str,
        milli: int,
        *,
        begin: float,
        end: float | None,
        failed: bool = False,
        pods: tuple[PodRef, ...] = (),
    ) -> None:
        job = Job(job_id, int(job_id), JobSpec(user=user, name=f"job of {user}", pods=pods), 0.0)
        uuids = uuid.split("+")
        models = ["Tesla V100" if "gone" in each else "NVIDIA A100" for each in uuids]
        chosen = tuple(ChosenDevice(at, model, None, None, 0.5) for at, model in enumerate(models))
        info = GpuInfo(len(chosen), tuple(range(len(chosen))), "pack", chosen)
        placement = Placement((Member("n", tuple(Grant(each, milli) for each in uuids)),))
        made = Allocation(f"{job_id}.1", job_id, user, placement, begin, gpu_info=info)
        facts: list[Fact] = [JobSubmitted(job, at=0.0, by=user), AllocationMade(made, at=begin, by="test")]
        if failed:
            facts.append(JobChanged(job_id, {"phase": Phase.FAILED}, at=begin, by="test"))
        if end is not None:
            facts.append(AllocationEnded(made.id, job_id, at=end, by="test"))
        self.ledger.commit(lambda _: Decided(tuple(facts), None)).result()

    @property
    def reports(self) -> GpuReports:
        return GpuReports(self.ledger, self.clock, self.measures, prices=self.prices, currency="EUR")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    yield Site(ledger)
    ledger.close()


def test_it_is_the_time_that_usage_tells(site: Site) -> None:
    for since, until in ((None, None), (NOW - 3000, NOW - 2000), (NOW - 7200, NOW - 1)):
        used = Accounts(site.ledger, site.clock).usage(UsageBy.USER, since=since, until=until)
        told = site.reports.report([ReportBy.USER], since=since, until=until)
        assert (told.since, told.until) == (used.since, used.until)
        hours = {row.names["user"]: row.gpu_hours for row in told.rows}
        assert hours == pytest.approx({row.name: row.gpu_hours for row in used.rows})
        assert told.total.gpu_hours == pytest.approx(used.total.gpu_hours)


def test_what_was_measured_is_used_or_idle_and_the_rest_is_unmetered(site: Site) -> None:
    site.measures.rows = [
        MeteredHour(472_220, "1.1", "GPU-0", HOUR_MS, 0, 360_000_000),
        MeteredHour(472_221, "1.1", "GPU-0", 0, HOUR_MS // 2),
    ]
    alice, bob = site.reports.report([ReportBy.USER]).rows
    assert (alice.used_hours, alice.idle_hours, alice.unmetered_hours) == (0.5, 0.25, 0.25)
    assert (alice.energy_kwh, bob.energy_kwh, bob.unmetered_hours) == (0.1, None, 0.5)


def test_a_gone_device_has_the_model_that_it_was_chosen_as(site: Site) -> None:
    site.prices = (Price(2_000_000, "A100"), Price(1_000_000, "V100", NOW - 2700))
    told = site.reports.report([ReportBy.MODEL])
    assert {row.names["model"]: (row.gpu_hours, row.cost, row.unpriced_hours) for row in told.rows} == {
        "NVIDIA A100": (1.0, 2.0, 0.0),
        "Tesla V100": (0.5, 0.25, 0.25),
    }
    assert (told.currency, told.total.cost, told.total.unpriced_hours) == ("EUR", 2.25, 0.25)


def test_a_bill_stays_as_it_was_when_devices_of_several_models_leave(site: Site) -> None:
    site.prices = (Price(2_000_000, "A100"), Price(1_000_000, "V100"))
    site.hold("3", "carol", "GPU-1+GPU-gone-too", 1000, begin=NOW - 3600, end=NOW)
    before = site.reports.report([ReportBy.MODEL])
    site.ledger.observe([NodeObserved(Node("n", (), 8000, 32768))])
    site.ledger.commit(lambda _: Decided((), None)).result()
    after = site.reports.report([ReportBy.MODEL])
    assert after == before
    assert {row.names["model"]: row.gpu_hours for row in after.rows} == {"NVIDIA A100": 2.0, "Tesla V100": 1.5}


def test_pods_are_charged_to_their_namespaces_and_what_is_no_pod_to_none(site: Site) -> None:
    before = site.reports.report([ReportBy.NAMESPACE])
    assert [row.names["namespace"] for row in before.rows] == ["(none)"]
    for number, namespace in enumerate(("team-a", "team-b", "team-a"), start=11):
        pods = (PodRef(namespace, "train", f"uid-{number}"),)
        site.hold(str(number), "alice", f"GPU-{number}", 1000, begin=NOW - 3600, end=NOW, pods=pods)
    after = site.reports.report([ReportBy.NAMESPACE])
    assert {row.names["namespace"]: row.gpu_hours for row in after.rows} == {
        "(none)": before.total.gpu_hours,
        "team-a": 2.0,
        "team-b": 1.0,
    }


def test_without_prices_there_is_no_cost(site: Site) -> None:
    told = site.reports.report([ReportBy.QUEUE])
    assert (told.currency, told.total.cost, told.total.unpriced_hours) == (None, None, 1.5)


def test_hours_and_weekdays_are_those_of_this_machine(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        told = site.reports.report([ReportBy.WEEKDAY, ReportBy.HOUR])
    time.tzset()
    # In UTC alice has her half of a GPU from 20:00 to 22:00, a Tuesday, and bob his from 21:00 to 21:30.
    assert {(row.names["weekday"], row.names["hour"]): row.gpu_hours for row in told.rows} == {
        ("Wed", "01:00"): 0.25,
        ("Wed", "02:00"): 1.0,
        ("Wed", "03:00"): 0.25,
    }


def test_the_example_of_the_page_comes_to_what_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "accounting.md").read_text()
    morning, ledger = NOW - 24 * 3600, open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    site = Site(ledger, prices=(Price(2_000_000, "A100"),), alone=True)
    site.hold("41", "alice", "GPU-0", 1000, begin=morning, end=morning + 4 * 3600)
    site.hold("42", "bob", "GPU-1", 500, begin=morning + 3600, end=morning + 3 * 3600, failed=True)
    first, watt_hour = round(morning // 3600), 3_600_000
    site.measures.rows = [
        *(MeteredHour(first + hour, "41.1", "GPU-0", HOUR_MS, 0, 300 * watt_hour) for hour in range(3)),
        MeteredHour(first + 3, "41.1", "GPU-0", 0, 36 * 60_000, 36 * watt_hour),
        *(MeteredHour(first + hour, "42.1", "GPU-1", HOUR_MS, 0, 150 * watt_hour) for hour in (1, 2)),
    ]
    told = site.reports.report([ReportBy.USER])
    ledger.close()
    assert "\n".join(report_lines(told)) in page


def test_a_clock_that_was_set_back_is_asked_and_told_by_itself(site: Site) -> None:
    site.clock.step(-86_400)
    told = site.reports.report([ReportBy.USER], since=NOW - 86_400 - 3600)
    assert (told.since, told.until, told.rows[0].gpu_hours) == (NOW - 86_400 - 3600, NOW - 86_400, 0.5)


def test_a_period_may_begin_before_all_time(site: Site) -> None:
    for since in (-(10.0**17), -1.0, 0.0):
        assert site.reports.report([ReportBy.HOUR], since=since).total.gpu_hours == 1.5
        assert site.reports.waste(since=since).rows == ()
    assert site.reports.report([ReportBy.HOUR], until=-(10.0**17)).rows == ()


def test_a_job_is_told_all_that_it_had_so_far(site: Site) -> None:
    site.measures.rows = [MeteredHour(472_221, name, "GPU-0", HOUR_MS, 0) for name in ("1.1", "2.1")]
    found = site.reports.of_job("1")
    assert found is not None
    assert (found.gpu_hours, found.used_hours, found.unmetered_hours, found.cost) == (1.0, 0.5, 0.5, None)
    assert site.reports.of_job("7") is None


def test_the_smallest_of_many_rows_are_told_together(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MOST_ROWS", 1)
    told = site.reports.report([ReportBy.JOB])
    assert [row.names for row in told.rows] == [{"job": "1", "name": "job of alice"}]
    assert told.others is not None
    assert (told.left_out, told.others.gpu_hours, told.total.gpu_hours) == (1, 0.5, 1.5)


def test_more_than_can_be_counted_at_once_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MOST_ALLOCATIONS", 1)
    with pytest.raises(Refused, match="ask for a shorter time"):
        site.reports.report([ReportBy.USER])
    monkeypatch.undo()
    monkeypatch.setattr(reports, "MOST_PIECES", 2)
    with pytest.raises(Refused, match="too many for a report by hour"):
        site.reports.report([ReportBy.HOUR])
    assert site.reports.report([ReportBy.USER]).total.gpu_hours == 1.5
