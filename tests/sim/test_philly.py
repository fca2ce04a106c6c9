"""The Philly trace: history stands in for limits, and predicted starts are compared with real ones."""

from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.sim.benchmarks.philly import PhillyJob, read_trace, simulate


def test_jobs_are_read_in_the_order_of_their_submission(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:55,66.0,1,66.0,b\n"
        "2017-10-09 07:01:00,10.0,8,80.0,a\n"
    )
    assert read_trace(path) == [PhillyJob(0.0, 10.0, 8, "a"), PhillyJob(55.0, 66.0, 1, "b")]


def test_a_line_that_is_no_job_is_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\nyesterday,1,1,1,a\n")
    with pytest.raises(Refused, match="line 2"):
        read_trace(path)


def test_with_regular_jobs_the_predicted_start_is_right_once_there_is_a_history() -> None:
    regular = [PhillyJob(float(50 * n), 100.0, 1, "a") for n in range(40)]
    report = simulate(regular, gpus=1, order="fcfs", ask_every=10)
    expected = report["expected_start"]
    assert (expected["asked"], expected["told"]) == (4, 4)
    assert (expected["median_error_s"], expected["mean_error_s"]) == (0.0, 0.0)


def test_nothing_is_told_of_who_waits_for_the_first_jobs_of_a_kind_and_the_report_says_why() -> None:
    trace = [PhillyJob(0.0, 1000.0, 1, "a"), *(PhillyJob(float(n), 10.0, 1, "a") for n in range(1, 5))]
    expected = simulate(trace, gpus=1, order="fcfs", ask_every=2)["expected_start"]
    assert (expected["asked"], expected["told"], expected["behind_jobs_without_history"]) == (2, 0, 2)
    assert expected["too_far_back"] == 0


def test_jobs_that_are_too_large_for_the_cluster_are_left_out() -> None:
    report = simulate([PhillyJob(0.0, 3600.0, 1, "a"), PhillyJob(0.0, 1.0, 9, "a")], gpus=8)
    assert (report["jobs"], report["mean_jct_h"]) == (1, 1.0)
    with pytest.raises(Refused, match="no job of the trace fits on 8"):
        simulate([PhillyJob(0.0, 1.0, 9, "a")], gpus=8)


def test_a_packed_file_is_refused_as_no_csv(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(b"\x1f\x8b\x08\xff")
    with pytest.raises(Refused, match="not a CSV file"):
        read_trace(path)
