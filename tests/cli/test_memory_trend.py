"""A job that ran out of memory shows how it got there."""

from typing import Any

import pytest

from corral.cli.tables.memory_trend import COLUMNS, ran_out_of_memory, trend_lines
from corral.client import Explanation, HistoryPoint, JobDetail
from corral.core.model.jobs.phase import Phase

NOW = 1_800_000_000.0


def point(at: float, mib: float) -> HistoryPoint:
    return HistoryPoint(int(at), mib, mib, mib, mib, 1.0)


def failed(**given: Any) -> JobDetail:
    return JobDetail(**{"id": "17", "user": "alice", "phase": Phase.FAILED, "ended_at": NOW, **given})


@pytest.mark.parametrize(
    ("reason", "diagnosis", "expected"),
    [
        (None, "out of GPU memory: 20G were tried", True),
        ("it held 50G of GPU 3, 10G more than its grant of 40G; ask for more", None, True),
        (None, "NCCL found no GPU memory for its buffers", True),
        ("its time limit of 1h", "the host ran out of memory", False),
        (None, None, False),
    ],
)
def test_it_is_told_of_those_that_ran_out_of_a_gpus_memory(
    reason: str | None, diagnosis: str | None, expected: bool
) -> None:
    explanation = Explanation("17", Phase.FAILED, diagnosis=diagnosis)
    assert ran_out_of_memory(failed(reason=reason), explanation) is expected
    assert not ran_out_of_memory(failed(reason=reason, ended_at=None), explanation)


def test_the_trend_is_a_bar_for_each_part_and_numbers() -> None:
    bars, numbers = trend_lines([point(NOW + 15 * n, 1024 * n) for n in range(41)], 15, NOW, 40 * 1024)
    trend, _, length = bars.partition("  ")
    assert len(trend) == COLUMNS
    assert list(trend) == sorted(trend)
    assert (trend[0], trend[-1], length) == ("▁", "█", "the last 10m 15s")
    assert "40G at the end; at most 40G, of 40G granted" in numbers


def test_a_part_without_a_reading_has_no_bar() -> None:
    (bars, _) = trend_lines([point(NOW, 10), point(NOW + 30, 20)], 10, NOW, None)
    assert bars.startswith("▅··█")
    assert trend_lines([], 10, NOW, 1024) == []


def test_a_job_that_never_used_memory_has_the_lowest_bars() -> None:
    (bars, numbers) = trend_lines([point(NOW, 0)], 10, NOW, None)
    assert bars.startswith("▁")
    assert "at most 0M" in numbers
