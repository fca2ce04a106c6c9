"""What becomes of the jobs that shared a device through a service that died."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.core.control.launching.attempts import Attempts
from corral.core.control.launching.environment import launches_of
from corral.core.control.nodes.node_events import LostServices
from corral.core.control.watching.memory_guard import Stopper
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import Decided
from corral.core.ports.node import ServiceLost
from tests.core.control.strategies import running

LOST = ServiceLost("GPU-0", "the MPS daemon of GPU-0 failed: it is gone", ("1.1", "2.1", "7.1"))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    opened = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    opened.commit(lambda view: Decided(tuple(running(view, 1, 2, 3)), None)).result()
    yield opened
    opened.close()


def test_those_who_used_it_are_told_and_stopped_as_lost_and_others_run_on(ledger: SqlLedger) -> None:
    told: list[tuple[str, str]] = []
    stopped: list[str] = []
    stopper = Stopper(ledger, SystemClock(), stopped.append)
    LostServices(Attempts(ledger, launches_of), lambda job, line: told.append((job, line)), stopper).end_tenants(
        "box", LOST
    )
    assert told == [("1", LOST.reason), ("2", LOST.reason)]
    assert stopped == ["1.1", "2.1"]
    jobs = ledger.view().jobs
    assert [(jobs[name].phase, jobs[name].stop_reason) for name in "123"] == [
        (Phase.STOPPING, Phase.LOST), (Phase.STOPPING, Phase.LOST), (Phase.RUNNING, None),
    ]  # fmt: skip
