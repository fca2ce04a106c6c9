"""The queue traces: figures that others have published or measured come out exactly."""

import gzip
from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.sim.benchmarks.swf import SwfJob, bounded_slowdown, read_trace, simulate
from tests.sim.conftest import Recorded

WINDOWS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)


@pytest.fixture(scope="module")
def lublin(recorded: Recorded) -> list[SwfJob]:
    return read_trace(recorded("swf/lublin_256.swf"))


def test_fcfs_without_backfill_gives_the_published_slowdown(lublin: list[SwfJob]) -> None:
    report = simulate(lublin, processors=256, windows=WINDOWS, jobs=1024, order="fcfs", backfill="none")
    assert report["mean_bounded_slowdown"] == 7273.77
    assert report["max_wait_s"] == 672302


def test_one_window_of_each_known_variant_agrees_with_an_independent_program(lublin: list[SwfJob]) -> None:
    figures = {
        ("fcfs", "easy", "queue", False): 130.66,
        ("saf", "easy", "queue", False): 37.98,
        ("saf", "none", "queue", False): 19.27,
        ("sjf", "none", "queue", True): 204.26,
    }
    measured = {
        (order, backfill, among, head): simulate(
            lublin,
            processors=256,
            windows=WINDOWS[:1],
            jobs=1024,
            order=order,
            backfill=backfill,
            backfill_order=among,
            commit_head=head,
        )["mean_bounded_slowdown"]
        for order, backfill, among, head in figures
    }
    assert measured == pytest.approx(figures, abs=0.01)


def test_a_large_job_is_not_overtaken_by_those_that_would_delay_it() -> None:
    trace = [SwfJob(0, 100, 3), SwfJob(1, 50, 4), SwfJob(2, 90, 1), SwfJob(3, 200, 1)]
    waits = {
        backfill: simulate(trace, processors=4, windows=[0], jobs=4, order="fcfs", backfill=backfill)["max_wait_s"]
        for backfill in ("none", "easy", "conservative")
    }
    # The third job ends before the first does; the fourth would keep the second from starting at 100.
    assert waits == {"none": 148.0, "easy": 147.0, "conservative": 147.0}


def test_short_runs_count_as_ten_seconds_in_the_slowdown() -> None:
    assert bounded_slowdown(20, 5) == 2.5
    assert bounded_slowdown(0, 5) == 1.0


def test_a_line_that_is_no_job_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.swf"
    path.write_text("; a comment\n1 0 -1 10 2 -1 -1 2\nnonsense\n")
    with pytest.raises(Refused, match="line 3"):
        read_trace(path)


def test_a_trace_is_read_as_archives_have_it_gzipped(tmp_path: Path) -> None:
    path = tmp_path / "trace.swf.gz"
    path.write_bytes(gzip.compress(b"; a comment\n1 5 -1 10 2 -1 -1 4\n"))
    assert read_trace(path) == [SwfJob(5, 10, 4)]


def test_a_job_of_which_the_trace_does_not_know_how_long_it_ran_is_refused_by_its_number() -> None:
    trace = [SwfJob(0, 1, 1), SwfJob(1, 5, 1), SwfJob(2, -1, 1)]
    assert simulate(trace, processors=1, windows=[0], jobs=2)["jobs"] == 2
    with pytest.raises(Refused, match="--windows: job 2 of the trace ran -1 s"):
        simulate(trace, processors=1, windows=[1], jobs=2)


def test_a_window_beyond_the_trace_is_refused_with_its_length() -> None:
    with pytest.raises(Refused, match="which has 1"):
        simulate([SwfJob(0, 1, 1)], processors=1, windows=[0], jobs=2)


def test_a_window_that_begins_before_the_trace_is_refused_as_one_beyond_it() -> None:
    with pytest.raises(Refused, match="--windows: -1 "):
        simulate([SwfJob(0, 1, 1)] * 3, processors=1, windows=[-1], jobs=2)


def test_an_unknown_way_to_fill_in_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused, match="no backfill 'esay'; did you mean 'easy'"):
        simulate([SwfJob(0, 1, 1)], processors=1, windows=[0], jobs=1, backfill="esay")
    with pytest.raises(Refused, match="no backfill order 'fifo'; known: queue, sjf"):
        simulate([SwfJob(0, 1, 1)], processors=1, windows=[0], jobs=1, backfill_order="fifo")


@pytest.mark.parametrize("factor", [0.5, float("nan"), float("inf")])
def test_limits_below_the_run_times_or_without_end_are_refused(factor: float) -> None:
    with pytest.raises(Refused, match="--limit-factor: "):
        simulate([SwfJob(0, 1, 1)], processors=1, windows=[0], jobs=1, limit_factor=factor)
