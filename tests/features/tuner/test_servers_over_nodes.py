"""Experiments whose server needs more GPUs than any node has: a gang over two nodes, with the engine's own launcher."""

import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client
from corral.features.tuner.answers import ExperimentRow
from tests.e2e.box import Box, serving
from tests.engines.pool import cluster
from tests.features.tuner.engine_stand_ins import write_engines
from tests.features.tuner.tasks import SLOW, TASK, begun, over, until

pytestmark = pytest.mark.long

ON_RAY = {"distributed-executor-backend": ["ray"]}


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """Three nodes with two GPUs each, which are as busy as their jobs."""
    busy = cluster(a="", b="", c="").replace('memory_size = "80G"', 'memory_size = "80G"\nload = "follow-jobs"')
    with serving(busy) as serving_box:
        yield serving_box


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_engines(tmp_path_factory.mktemp("engines"))


def first(client: Client, task_id: str) -> ExperimentRow:
    """The experiment of the only combination of a task; the next one repeats it."""
    row, *repeats = client.experiments.list(task_id, metrics=True)
    assert [one.repeats for one in repeats] in ([], [1])
    return row


def nodes_of(row: ExperimentRow) -> list[tuple[str, list[int]]]:
    assert row.gpu_info is not None
    return [(node["node"], node["indices"]) for node in row.gpu_info["nodes"]]


def written(client: Client, row: ExperimentRow) -> str:
    return b"".join(client.jobs.logs_bytes(row.job_id or "", rank="all")).decode()


def test_a_server_that_no_node_holds_is_a_gang_whose_members_meet(box: Box) -> None:
    file = box.home / "task.json"
    file.write_text(json.dumps({**TASK, "parameters": {"tp": [2, 4]}}))
    before = box.json("tasks", "--json")
    dry = box.ok("tune", str(file), "--dry-run").splitlines()
    assert dry[0] == "at most 4 experiments with 2 to 4 GPUs each on up to 2 nodes"
    assert "experiments with up to 4 GPUs are gangs over up to 2 nodes, because no node has so many" in dry
    assert box.json("tasks", "--json") == before
    told = box.ok("tune", str(file), "--follow")
    assert "experiment 2: tp 4: success" in told
    with Client(box.home) as client:
        task = client.tasks.list()[0]
        one, two = client.experiments.list(task.id, metrics=True)[:2]
        log = written(client, two)
    assert "serve it: corral run --g" in told
    assert nodes_of(one) == [("a", [0, 1])]
    assert nodes_of(two) == [("a", [0, 1]), ("b", [0, 1])]
    assert two.gpu_info is not None
    assert (two.gpu_info["count"], two.gpu_info["world_size"]) == (4, 4)
    assert len(set(two.gpu_info["device_ids"])) == 4
    assert "4 on 2 nodes (Mock)" in box.ok("experiments", task.id)
    assert "[0] member 1 of 2 is there\n" in log
    assert "[1] member 1 of 2 joins " in log
    assert box.ok("tasks", "logs", task.id, "--experiment", "2") == log


@pytest.mark.parametrize(
    ("engine", "parameters", "said"),
    [
        ("sglang", {}, ("[0] member 1 of 2 is there", "[1] member 1 of 2 joins ")),
        ("vllm", {}, ("[0] member 1 of 2 is there", "[1] member 1 of 2 joins ")),
        ("vllm", ON_RAY, ("[0] the cluster has 4 GPUs", "[1] a worker with 2 GPUs joins ")),
    ],
)
def test_each_engine_starts_on_both_nodes_by_its_own_means_and_the_printed_command_does_too(
    box: Box, engines: str, engine: str, parameters: dict[str, Any], said: tuple[str, ...]
) -> None:
    with Client(box.home) as client:
        fields = {"base_runtime": engine, "parameters": {"tp": [4], **parameters}, "env": {"PATH": engines}}
        task_id = begun(client, **fields)
        task = over(box, client, task_id)
        row = first(client, task_id)
        assert (task.status, row.error_message) == ("completed", None)
        log = written(client, row)
        assert all(one in log for one in said)
        shown = box.ok("tasks", "show", task_id).rpartition("serve it: ")[2]
        # The port of the command may be another's here.
        command = shlex.split(shown.replace("--port 8000", "--port 0"))
        assert command[:2] == ["corral", "run"]
        job_id = json.loads(box.ok("submit", "--json", *command[2:], PATH=engines))["id"]
        box.until(lambda: "serving toy at port" in box.ok("logs", job_id))
        assert [len(member.devices) for member in client.jobs.get(job_id).members] == [2, 2]
    box.ok("cancel", job_id)
    box.ended(job_id)


def test_the_gpus_of_all_members_are_read_while_the_first_one_is_measured(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, parameters={"tp": [4]}, benchmark={**SLOW, "max_time_per_iteration": 0.06})
        over(box, client, task_id)
        row = first(client, task_id)
    assert row.metrics is not None
    assert set(row.metrics["gpu_monitoring"]["gpu_stats"]) == {"a:0", "a:1", "b:0", "b:1"}


def test_an_experiment_goes_on_if_its_job_begins_again_on_another_node(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, parameters={"tp": [1]}, benchmark={**SLOW, "max_time_per_iteration": 0.05})
        running = until(box, client, task_id, lambda row: row.status == "benchmarking")
        assert nodes_of(running) == [("a", [0])]
        for device in client.devices.list():
            if device.node == "a":
                client.devices.cordon(device.uuid, reason="moved away")
        try:
            client.jobs.requeue(running.job_id or "")
            task = over(box, client, task_id)
            row = first(client, task_id)
        finally:
            for device in client.devices.list():
                if device.state == "cordoned":
                    client.devices.uncordon(device.uuid)
    assert (task.status, row.error_message, nodes_of(row)) == ("completed", None, [("b", [0])])


@pytest.mark.parametrize("rank", [0, 1])
def test_the_end_of_one_member_ends_the_experiment_with_the_words_of_all(box: Box, rank: int) -> None:
    with Client(box.home) as client:
        task_id = begun(client, parameters={"tp": [4]}, benchmark=SLOW)
        running = until(box, client, task_id, lambda row: row.status == "benchmarking")
        os.kill(server_pid(running.job_id or "", rank), signal.SIGKILL)
        task = over(box, client, task_id)
        row = first(client, task_id)
        job = client.jobs.get(row.job_id or "")
    assert (task.status, row.status) == ("failed", "failed")
    assert job.ended
    # Which one is named, the clock decides: the other ends as soon as its connection does.
    assert (row.error_message or "").startswith(("rank 0 on a", "rank 1 on b"))
    assert "[0] member 1 of 2 is there" in (row.error_message or "")
    assert "[1] member 1 of 2 joins" in (row.error_message or "")


def server_pid(job_id: str, rank: int) -> int:
    """The process of a member's inference server."""
    wanted = {f"CORRAL_JOB_ID={job_id}".encode(), f"RANK={rank}".encode()}
    for process in Path("/proc").iterdir():
        try:
            is_of_member = process.name.isdigit() and wanted <= set((process / "environ").read_bytes().split(b"\0"))
            if is_of_member and b"stand_in_server" in (process / "cmdline").read_bytes():
                return int(process.name)
        except OSError:
            continue
    raise AssertionError("the member has no server")


def test_a_member_that_ends_well_while_others_serve_ends_the_experiment(box: Box, tmp_path: Path) -> None:
    quits = tmp_path / "python3"
    quits.write_text(
        '#!/bin/sh\n[ "$RANK" = 1 ] && exit 0\nexec sleep 1000\n',
    )
    quits.chmod(0o755)
    with Client(box.home) as client:
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        task_id = begun(client, base_runtime="sglang", parameters={"tp": [4]}, env=env)
        over(box, client, task_id)
        row = first(client, task_id)
        job = client.jobs.get(row.job_id or "")
    assert "member 1 on b ended with 0 while others ran" in (row.error_message or "")
    assert job.phase == "CANCELLED"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"parameters": {"tp": [8]}},
            "no equal parts of 8 fit on several nodes with GPUs of one model (3 nodes with 2)",
        ),
        ({"base_runtime": "sglang", "parameters": {"tp": [2], "dp": [2]}}, "set enable-dp-attention, or leave data"),
    ],
)
def test_what_no_gang_here_can_serve_fails_with_the_reason(box: Box, fields: dict[str, Any], why: str) -> None:
    with Client(box.home) as client:
        task_id = begun(client, **fields)
        over(box, client, task_id)
        assert why in (first(client, task_id).error_message or "")
