"""One forecast serves all who ask while nothing changes."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.control.querying.outlooks import KEPT_S, Outlooks
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.core.scheduling.forecast import Foresight
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, submitted

PATIENCE_S = 60.0


class Site:
    """A ledger with one job that waits, and its expected starts; each forecast needs a planner, which is counted."""

    def __init__(self, path: Path) -> None:
        self.ledger: SqlLedger = open_ledger(f"sqlite:///{path / 'ledger.db'}")
        self.ledger.observe(observed(box()))  # type: ignore[arg-type]
        self.clock = ManualClock(T0)
        self.forecasts = 0
        self.hold: threading.Event | None = None
        self.begun = threading.Semaphore(0)
        self.outlooks = Outlooks(self.ledger, self.clock, self._planner)
        self.submit(1)

    def submit(self, number: int) -> None:
        self.ledger.commit(lambda _: Decided(tuple(submitted(job(number))), None)).result()  # type: ignore[arg-type]

    def foresight(self) -> Foresight:
        with self.outlooks.current() as outlook:
            return outlook.foresight

    def _planner(self, view: View) -> Planner:
        self.forecasts += 1
        self.begun.release()
        if self.hold is not None:
            assert self.hold.wait(PATIENCE_S)
        return Planner(view)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.ledger.close()


def test_while_nothing_changes_the_same_forecast_is_told(site: Site) -> None:
    first = site.foresight()
    assert first.starts["1"].at_once
    assert all(site.foresight() is first for _ in range(10))
    assert site.forecasts == 1


def test_what_changes_is_in_the_next_forecast(site: Site) -> None:
    assert site.foresight().starts.keys() == {"1"}
    site.submit(2)
    assert site.foresight().starts.keys() == {"1", "2"}


def test_time_alone_makes_a_forecast_stale(site: Site) -> None:
    site.foresight()
    site.clock.advance(KEPT_S)
    assert site.foresight().starts["1"].start_at == T0 + KEPT_S
    assert site.forecasts == 2


def test_a_crowd_that_asks_after_a_change_waits_for_one_forecast_beside_the_one_being_made(site: Site) -> None:
    site.hold = threading.Event()
    told: list[set[str]] = []
    early = threading.Thread(target=site.foresight)
    early.start()
    assert site.begun.acquire(timeout=PATIENCE_S)
    site.submit(2)
    crowd = [threading.Thread(target=lambda: told.append(set(site.foresight().starts))) for _ in range(20)]
    for one in crowd:
        one.start()
    site.hold.set()
    for one in (early, *crowd):
        one.join(PATIENCE_S)
    assert told == [{"1", "2"}] * 20
    assert site.forecasts == 2
