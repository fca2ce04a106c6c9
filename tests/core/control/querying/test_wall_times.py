"""Answers tell moments by the wall clock, wherever they stand in them."""

from dataclasses import dataclass

import pytest

from corral.clock import ManualClock, SystemClock
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.jobs import JobRow
from corral.core.model.jobs.phase import Phase
from corral.features.accounting.answers import Usage, UsageRow


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


def test_an_answer_is_left_alone_while_the_clocks_agree(clock: ManualClock) -> None:
    row = [JobRow("1", phase=Phase.RUNNING, submitted_at=900.0)]
    assert in_wall_time(row, clock) is row
    assert in_wall_time(row, SystemClock()) is row


@dataclass(frozen=True)
class Nested:
    rows: tuple[JobRow, ...]
    spec: dict[str, object]


def test_every_moment_moves_and_nothing_else(clock: ManualClock) -> None:
    clock.step(60)
    job = JobRow(
        "1", phase=Phase.RUNNING, submitted_at=900.0, started_at=None, expected_start=1100.0, time_limit_s=50.0
    )
    nested = Nested((job,), {"begin_at": 5.0, "time_limit_s": 5.0, "env": [["started_at", "900"]], "flat_at": True})
    told = in_wall_time(nested, clock)
    (row,) = told.rows
    assert (row.submitted_at, row.started_at, row.expected_start, row.time_limit_s) == (960.0, None, 1160.0, 50.0)
    assert told.spec == {"begin_at": 65.0, "time_limit_s": 5.0, "env": [["started_at", "900"]], "flat_at": True}


def test_rows_of_devices_and_usage_are_told_so_too(clock: ManualClock) -> None:
    clock.step(-60)
    (device,) = in_wall_time([DeviceRow("GPU-0", since=900.0)], clock)
    assert device.since == 840.0
    usage = in_wall_time(Usage("user", 100.0, 200.0, (), UsageRow("total")), clock)
    assert (usage.since, usage.until) == (40.0, 140.0)
