"""Key figures by group: who has a row, under which name, and in which order."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from corral.app.http_api import description
from corral.clock import ManualClock
from corral.core.control.metrics.request_counts import RequestCounts
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.group_use import POOL, GroupUse, KpiBy
from corral.core.model.fact import NodeObserved
from corral.core.model.jobs.job import JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import Decided
from corral.features.history import key_figures
from corral.features.history.key_figures import WAITING_ROUTES, KeyFigures, response_time
from tests.core.ledger.making import url_of, write
from tests.core.ledger.test_ended_jobs import life

NOW = 1_700_000_000.0


@dataclass
class Sums:
    """What was measured, by hand."""

    by_kind: dict[str, dict[str, GroupUse]] = field(default_factory=dict)
    asked: list[tuple[float, float]] = field(default_factory=list)

    def of_kind(self, kind: str, first: float, last: float) -> dict[str, GroupUse]:
        self.asked.append((first, last))
        return dict(self.by_kind.get(kind, {}))


@dataclass
class Rig:
    """A ledger with one GPU, `GPU-0`, in which nothing has ended."""

    ledger: SqlLedger
    sums: Sums = field(default_factory=Sums)
    requests: RequestCounts = field(default_factory=RequestCounts)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))

    def __post_init__(self) -> None:
        self.figures = KeyFigures(self.ledger, self.sums, self.requests, self.clock)
        self.ledger.observe([NodeObserved(Node("n1", (Device("GPU-0", 0, "A100", 80_000),), 8000, 32768))])
        self.ledger.commit(lambda _: Decided((), None)).result()

    def names(self, by: KpiBy) -> list[str]:
        return [row.name for row in self.figures.kpis(by).rows]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    ledger = open_ledger(url_of(tmp_path))
    yield Rig(ledger)
    ledger.close()


def test_who_has_only_jobs_or_only_readings_has_a_row_the_largest_first(rig: Rig) -> None:
    rig.sums.by_kind["user"] = {"bob": GroupUse(utilization_s=5), "carol": GroupUse(utilization_s=50)}
    write(rig.ledger, *life(1, Phase.SUCCEEDED, NOW - 60), *life(2, Phase.FAILED, NOW - 60, spec=JobSpec("bob")))
    assert rig.names(KpiBy.USER) == ["carol", "bob", "alice"]


def test_jobs_are_told_by_the_means_of_their_gpu(rig: Rig) -> None:
    write(
        rig.ledger,
        *life(1, Phase.SUCCEEDED, NOW - 60),
        *life(2, Phase.SUCCEEDED, NOW - 60, where=("n1", "GPU-gone")),
        *life(3, Phase.SUCCEEDED, NOW - 60, where=("n1", "GPU-lost")),
        *life(4, Phase.SUCCEEDED, NOW - 60, where=None),
    )
    rows = rig.figures.kpis(KpiBy.MEANS, range_name="1h").rows
    jobs = {row.name: round(row.job_throughput.value or 0) for row in rows}
    assert jobs == {"unknown": 2, "none": 1, "exclusive": 1}, "a whole GPU is had alone, whatever its setting"


def test_there_are_only_so_many_rows(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_figures, "MOST_ROWS", 3)
    rig.sums.by_kind["project"] = {f"p{number}": GroupUse(utilization_s=number) for number in range(5)}
    found = rig.figures.kpis(KpiBy.PROJECT)
    assert [row.name for row in found.rows] == ["p4", "p3", "p2"]
    assert found.left_out == 2


def test_a_job_per_hour_is_of_the_time_that_has_passed(rig: Rig) -> None:
    write(rig.ledger, *life(1, Phase.SUCCEEDED, NOW - 60))
    whole = rig.figures.kpis(start=int(NOW) - 1800, end=int(NOW) + 86_400)
    assert whole.job_throughput.value == pytest.approx(2.0, rel=0.01)


def test_times_are_of_the_wall_clock(rig: Rig) -> None:
    rig.clock.step(86_400)
    rig.figures.kpis(start=int(NOW) + 86_400 - 100, end=int(NOW) + 86_400)
    assert rig.sums.asked == [(NOW - 100, NOW)]


def test_a_failure_is_told_though_nothing_else_was_read(rig: Rig) -> None:
    assert rig.figures.kpis().hardware_failures.value is None
    rig.sums.by_kind[POOL] = {"": GroupUse(failures=1)}
    assert rig.figures.kpis().hardware_failures.value == 1


def test_requests_that_wait_on_purpose_are_not_in_the_response_time() -> None:
    requests = RequestCounts()
    requests.add("/api/v1/devices", "GET", 200, 0.010)
    requests.add("/api/v1/jobs", "GET", 200, 0.030)
    for route in WAITING_ROUTES:
        requests.add(route, "GET", 200, 20.0)
    assert response_time(requests).requests == 2
    assert response_time(requests).seconds == pytest.approx(0.040)
    assert set(description()["paths"]) >= WAITING_ROUTES
