"""Tasks from their file to the winner: a real server, real jobs, a stand-in for the inference server."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client
from corral.features.tuner.answers import TaskRow
from tests.e2e.box import Box
from tests.features.tuner.tasks import SLOW, TASK, begun, over, tuner_of, until

pytestmark = pytest.mark.long

WATCHED: dict[str, Any] = {
    "parameters": {"max-num-seqs": [4]},
    "benchmark": {**TASK["benchmark"], "max_time_per_iteration": 0.06, "max_requests_per_iteration": 1_000_000},
}
DYING: dict[str, Any] = {"parameters": {"chunk-size": ["many", 64]}}
HANGING: dict[str, Any] = {"parameters": {"start-s": [3600.0]}, "optimization": {"timeout_per_iteration": 2}}
ABSENT: dict[str, Any] = {"base_runtime": "vllm", "env": {"PATH": "/nowhere"}}
VIOLATING: dict[str, Any] = {"slo": {"ttft": {"threshold": 1e-6, "hard_fail": True}}}
FAILING: dict[str, Any] = {"parameters": {"fail-every": [5]}}


FORGING: dict[str, Any] = {"parameters": {"tp": ["2\n2026-01-01 CRITICAL \x1b[31mforged"]}}


@pytest.fixture(scope="module")
def ended(box: Box) -> dict[str, TaskRow]:
    """Tasks that need nothing of each other, and so are run at once."""
    with Client(box.home) as client:
        tasks = {"watched": WATCHED, "dying": DYING, "hanging": HANGING, "absent": ABSENT, "failing": FAILING}
        tasks |= {"violating": VIOLATING, "forging": FORGING}
        ids = {name: begun(client, **fields) for name, fields in tasks.items()}
        return {name: over(box, client, task_id) for name, task_id in ids.items()}


def test_a_task_ends_with_the_best_parameters_and_its_proof(box: Box) -> None:
    file = box.home / "task.json"
    space = {"max-num-seqs": [4, 16], "tp": [1, 2]}
    benchmark = {**TASK["benchmark"], "num_concurrency": [16], "max_requests_per_iteration": 80}
    file.write_text(json.dumps({**TASK, "parameters": space, "benchmark": benchmark, "max_parallel": 2}))
    told = box.ok("tune", str(file), "--follow")
    lines = [line for line in told.splitlines() if line.startswith("[")]
    assert [line[:5] for line in lines] == [f"[{number}/8]" for number in range(1, len(lines) + 1)]
    assert f"{len(lines)} experiments, {len(lines)} succeeded" in told
    assert all("measures experiment" in line for line in lines[4:])
    assert "times the tokens/s per GPU of the default" in told
    with Client(box.home) as client:
        task = client.tasks.list()[0]
        rows = client.experiments.list(task.id, metrics=True)
        best = client.experiments.get(task.best_experiment_id or "")
        jobs = client.jobs.list(all=True, name=f"tune-{task.id}-*")
    assert (task.status, task.successful_experiments, task.planned_experiments) == ("completed", len(lines), 8)
    ends = {job.id: job.reason or "" for job in jobs}
    assert all(
        ends[row.job_id or ""].endswith(f": experiment {row.experiment_id} of task {task.id} is over") for row in rows
    )
    assert [row.experiment_id for row in rows] == list(range(1, len(lines) + 1))
    assert {row.repeats for row in rows[:4]} == {None}
    assert best.experiment_id in {row.repeats for row in rows[4:]}
    # Which one that is, a busy machine may decide.
    sequences, ranks = best.parameters["max-num-seqs"], best.parameters["tp"]
    assert f"serve it: corral run --gpus {ranks} --gpu-model 'Mock A100' --env " in told
    assert told.rstrip().endswith(f"--max-num-seqs {sequences} --tensor-parallel-size {ranks}")
    assert [row.gpu_info["count"] for row in rows[:4] if row.gpu_info] == [1, 2, 1, 2]
    two = next(row for row in rows if row.gpu_info and row.gpu_info["count"] == 2)
    assert two.gpu_info is not None
    assert (two.gpu_info["world_size"], two.gpu_info["gpu_info"]["indices"]) == (2, [0, 1])
    assert all(uuid.startswith("GPU-") for uuid in two.gpu_info["device_ids"])
    assert all((row.metrics or {})["generator"] == "corral" for row in rows)
    # None of them runs any more, and no two had the same port at a time.
    assert [job.phase for job in jobs] == ["CANCELLED"] * len(rows)
    listed = box.ok("experiments", task.id)
    assert listed.count("success") == len(rows)
    assert "1 (Mock)" in listed


def test_gpus_are_watched_for_the_seconds_of_the_measurement(box: Box, ended: dict[str, TaskRow]) -> None:
    with Client(box.home) as client:
        row = client.experiments.list(ended["watched"].id, metrics=True)[0]
    assert row.metrics is not None
    watched = row.metrics["gpu_monitoring"]
    (level,) = row.metrics["raw_results"]
    # It samples each second, and only whole seconds within the 3.6 s of the level count.
    assert 1 <= watched["sample_count"] <= 4
    assert 0 < watched["monitoring_duration_seconds"] <= level["run_duration"]
    (gpu,) = watched["gpu_stats"].values()
    assert gpu["utilization"]["samples"] == watched["sample_count"]


def test_a_tuner_that_is_killed_and_a_server_that_restarts_lose_nothing(box: Box) -> None:
    with Client(box.home) as client:
        levels = {**TASK["benchmark"], "num_concurrency": [1, 2, 3], "max_requests_per_iteration": 20}
        task_id = begun(client, benchmark=levels)
        first = until(box, client, task_id, lambda row: row.metrics is not None)
        os.kill(tuner_of(box, task_id), signal.SIGKILL)
        until(box, client, task_id, lambda row: row.experiment_id == 2 and row.status == "benchmarking")
    box.down()
    box.up()
    with Client(box.home) as client:
        row = over(box, client, task_id)
        rows = client.experiments.list(task_id, metrics=True)
        jobs = client.jobs.list(all=True, name=f"tune-{task_id}-*")
    assert (row.status, row.total_experiments, row.successful_experiments) == ("completed", len(rows), len(rows))
    assert [one.repeats for one in rows][:3] in ([None, None, 1], [None, None, 2])
    assert [one.job_id for one in rows] == [job.id for job in reversed(jobs)]
    assert rows[0].job_id == first.job_id
    for one in rows:
        measured = [level["num_concurrency"] for level in (one.metrics or {})["raw_results"]]
        assert measured == [1, 2, 3]


def test_what_is_cancelled_stops_and_goes_on_where_it_was(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, benchmark=SLOW)
        running = until(box, client, task_id, lambda row: row.status == "benchmarking")
        assert "no experiment of it runs" in box.ok("tasks", "cancel", task_id)
        (row,) = client.experiments.list(task_id)
        assert (row.status, row.error_message) == ("failed", "the task was cancelled")
        assert client.jobs.get(running.job_id or "").phase == "CANCELLED"
        box.until(lambda: not client.jobs.list(name=f"tune-{task_id}-*"))
        box.ok("tasks", "clear", task_id)
        assert client.experiments.list(task_id) == ()
        box.ok("tasks", "delete", task_id)


SECONDS = {**TASK["benchmark"], "max_requests_per_iteration": 1_000_000, "max_time_per_iteration": 0.05}


def test_a_record_that_makes_no_sense_fails_its_experiment_alone_and_leaves_no_server(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, benchmark=SECONDS)
        first = until(box, client, task_id, lambda row: row.status == "benchmarking")
        os.kill(tuner_of(box, task_id), signal.SIGKILL)
        client.experiments.change(first.id, search_state={"readings": 5}, metrics={"raw_results": ["none"]})
        task = over(box, client, task_id)
        broken, *others = client.experiments.list(task_id)
        jobs = client.jobs.list(all=True, name=f"tune-{task_id}-*")
    assert (task.status, broken.status, {one.status for one in others}) == ("completed", "failed", {"success"})
    assert [job.phase for job in jobs] == ["CANCELLED"] * (1 + len(others))


def test_an_experiment_whose_end_its_user_records_leaves_no_server_and_the_task_goes_on(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, benchmark=SECONDS)
        first = until(box, client, task_id, lambda row: row.status == "benchmarking")
        client.experiments.change(first.id, status="failed", error_message="it is too loud")
        task = over(box, client, task_id)
        ended, *others = client.experiments.list(task_id)
        jobs = client.jobs.list(all=True, name=f"tune-{task_id}-*")
    assert (task.status, ended.error_message, {one.status for one in others}) == (
        "completed",
        "it is too loud",
        {"success"},
    )
    assert [job.phase for job in jobs] == ["CANCELLED"] * (1 + len(others))


def test_what_a_cancellation_stopped_is_tried_again_when_the_task_continues(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, benchmark=SECONDS)
        until(box, client, task_id, lambda row: row.status == "benchmarking")
        client.tasks.cancel(task_id)
        box.until(lambda: client.experiments.list(task_id)[0].status == "failed")
        client.tasks.start(task_id)
        task = over(box, client, task_id)
        stopped, again, other, *_ = client.experiments.list(task_id)
    assert (stopped.status, again.status, other.status) == ("failed", "success", "success")
    assert stopped.parameters == again.parameters != other.parameters
    assert (task.status, task.planned_experiments) == ("completed", 5)


def test_a_cancelled_task_ends_its_experiments_whatever_their_records_say(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, benchmark=SLOW)
        first = until(box, client, task_id, lambda row: row.status == "benchmarking")
        os.kill(tuner_of(box, task_id), signal.SIGKILL)
        client.experiments.change(first.id, search_state={"failure": "loud"}, gpu_info={"model": 5, "device_ids": 7})
        box.ok("tasks", "cancel", task_id)
        (row,) = client.experiments.list(task_id)
        assert (row.status, client.jobs.get(first.job_id or "").phase) == ("failed", "CANCELLED")
        box.ok("tasks", "delete", task_id)


def test_an_experiment_whose_gpus_are_taken_away_waits_again(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, parameters={"max-num-seqs": [4]}, benchmark={**SLOW, "max_time_per_iteration": 0.05})
        running = until(box, client, task_id, lambda row: row.status == "benchmarking")
        client.jobs.requeue(running.job_id or "")
        row = over(box, client, task_id)
        one, _ = client.experiments.list(task_id)
        assert (row.error_message, one.status, one.job_id) == (None, "success", running.job_id)
        assert client.jobs.get(running.job_id or "").attempts == 2


def test_the_words_of_a_server_that_dies_are_kept_and_the_search_goes_on(box: Box, ended: dict[str, TaskRow]) -> None:
    row = ended["dying"]
    with Client(box.home) as client:
        died, served, again = client.experiments.list(row.id)
    assert (row.status, row.successful_experiments) == ("completed", 2)
    assert (died.status, served.status, again.repeats) == ("failed", "success", 2)
    assert "argument --chunk-size: invalid int value: 'many'" in (died.error_message or "")


def test_requests_that_a_server_cannot_answer_are_counted_and_do_not_fail_the_experiment(
    box: Box, ended: dict[str, TaskRow]
) -> None:
    with Client(box.home) as client:
        row = client.experiments.list(ended["failing"].id, metrics=True)[0]
    assert (row.status, row.metrics is not None) == ("success", True)
    assert (row.metrics or {})["raw_results"][0]["error_codes_frequency"] == {"500": 6}


def test_a_task_none_of_whose_experiments_succeeds_has_failed(ended: dict[str, TaskRow]) -> None:
    row = ended["hanging"]
    assert row.status == "failed"
    assert "the server did not answer at /health within" in (row.error_message or "")


def test_an_experiment_that_breaks_a_hard_limit_has_failed_with_its_metrics(
    box: Box, ended: dict[str, TaskRow]
) -> None:
    row = ended["violating"]
    with Client(box.home) as client:
        rows = client.experiments.list(row.id, metrics=True)
    assert (row.status, row.successful_experiments) == ("failed", 0)
    assert "slo_violation: the only level exceeds a hard limit" in (row.error_message or "")
    assert [one.status for one in rows] == ["failed", "failed"]
    for one in rows:
        assert (one.error_message or "").startswith("slo_violation")
        assert "slo.ttft allows 1e-06 s" in (one.error_message or "")
        assert (one.objective_score, (one.metrics or {})["mean_ttft"] > 1e-6) == (None, True)


def test_a_value_of_a_parameter_begins_no_line_of_the_server_log(box: Box, ended: dict[str, TaskRow]) -> None:
    assert ended["forging"].status == "failed"
    told = [line for line in (box.home / "server.log").read_text().splitlines() if "forged" in line]
    assert told
    assert all(" INFO " in line or " ERROR " in line for line in told)
    assert "\x1b" not in "".join(told)


def test_where_no_combination_can_be_deployed_one_is_enough_to_say_so(ended: dict[str, TaskRow]) -> None:
    row = ended["absent"]
    assert (row.status, row.total_experiments, row.planned_experiments) == ("failed", 1, 4)
    assert "no experiment can be deployed" in (row.error_message or "")
    assert "vllm cannot be run: No such file" in (row.error_message or "")


def test_an_experiment_that_waits_too_long_for_gpus_has_failed(box: Box) -> None:
    with Client(box.home) as client:
        held = client.submit(["sleep", "600"], gpus=2)
        box.until(lambda: client.jobs.get(held.id).phase == "RUNNING")
        task_id = begun(client, parameters={"tp": [2]}, gpu_wait_timeout_s=0.5)
        row = over(box, client, task_id)
        never = begun(client, parameters={"tp": [64]})
        impossible = over(box, client, never)
        held.cancel()
        held.wait()
    assert "Insufficient GPUs after waiting 0.5 s" in (row.error_message or "")
    assert impossible.status == "failed"


def test_a_file_with_a_mistake_is_refused_with_the_nearest_name(box: Box, tmp_path: Path) -> None:
    file = tmp_path / "task.json"
    for content, why in [
        ('{"task_nam": "x"}', "did you mean 'task_name'?"),
        ("{", "is not JSON"),
        ("[]", "must have an object"),
    ]:
        file.write_text(content)
        refused = box.run("tune", str(file))
        assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
