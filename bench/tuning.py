"""A task of the autotuner with 10,000 experiments: what the server takes to tell of it.

`python -m bench.tuning` prints of each answer how long its client waited (median and longest of `ROUNDS`) and what the
server computed for it, beside the goal. An experiment has the metrics of three levels of load and of two GPUs.
"""

import http.client
import socket
import statistics
import time
from pathlib import Path

from bench.server import RunningServer, throw_away
from corral.core.ledger.store import open_ledger
from corral.core.model.fact import Fact
from corral.core.model.home import Home
from corral.core.ports.ledger import Decided
from corral.features.feature_list import slices
from corral.features.tuner.facts import ExperimentEnded, TaskCreated
from corral.features.tuner.model.experiment import Experiment, ExperimentStatus
from corral.features.tuner.model.tuning_spec import ServedModel, TuningSpec
from corral.features.tuner.model.tuning_task import TaskStatus, TuningTask

EXPERIMENTS = 10_000
TASK = "1"
ROUNDS = 20
GOAL_MS = 100
_BATCH = 500

PATHS = {
    "tasks": "/api/v1/tasks",
    "task": f"/api/v1/tasks/{TASK}",
    "100 experiments in short": f"/api/v1/tasks/{TASK}/experiments?after=5000&limit=100",
    "500 experiments in short": f"/api/v1/tasks/{TASK}/experiments?after=5000&limit=500",
    "findings, known": f"/api/v1/tasks/{TASK}/findings",
    "500 experiments": f"/api/v1/experiments?task={TASK}&after=5000&limit=500",
    "100 experiments with metrics": f"/api/v1/experiments?task={TASK}&after=5000&limit=100&metrics=true",
    "100 experiments, as others list them": f"/api/experiments/task/{TASK}?skip=5000&limit=100",
    "the last 100 of all, as others list them": f"/api/experiments/?skip={EXPERIMENTS - 100}&limit=100",
    "one experiment": "/api/v1/experiments/5000",
}


def main() -> None:
    with throw_away(prepare=_fill) as server:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(server.socket))
        for name, path in PATHS.items():
            _measure(server, connection, name, path)


def _measure(server: RunningServer, connection: http.client.HTTPConnection, name: str, path: str) -> None:
    size = _ask(connection, path)
    waited_ms, before_s = [], server.cpu_s()
    for _ in range(ROUNDS):
        began = time.perf_counter()
        _ask(connection, path)
        waited_ms.append(1e3 * (time.perf_counter() - began))
    cpu_ms = 1e3 * (server.cpu_s() - before_s) / ROUNDS
    print(f"{name}: {statistics.median(waited_ms):.1f} ms, longest {max(waited_ms):.1f} ms, {cpu_ms:.1f} ms of CPU, "
          f"{size / 1024:.0f} KiB (goal {GOAL_MS} ms)")  # fmt: skip


def _ask(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    return len(body)


def _fill(root: Path) -> None:
    """Write the task down, before the server starts."""
    ledger = open_ledger(Home(root).ledger_url, slices=slices())
    spec = TuningSpec("large", ServedModel("llama-3-8b"), "vllm", {"max-num-seqs": list(range(EXPERIMENTS))})
    task = TuningTask(TASK, "root", spec, 1.0, TaskStatus.COMPLETED, 2.0, 9e4, EXPERIMENTS)
    ids = ledger.next_ids(EXPERIMENTS + 1)
    _commit(ledger, [TaskCreated(task, by="root", at=1.0)])
    for first in range(1, EXPERIMENTS + 1, _BATCH):
        made = [_experiment(number, ids[number]) for number in range(first, first + _BATCH)]
        _commit(ledger, [ExperimentEnded(one, by="root", at=one.created_at) for one in made])
    ledger.close()


def _commit(ledger: object, facts: list[Fact]) -> None:
    ledger.commit(lambda _: Decided(tuple(facts), None)).result()  # type: ignore[attr-defined]


def _experiment(number: int, experiment_id: str) -> Experiment:
    level = {f"{part}_{name}": 0.1234567 * number for name in _MEASURED for part in ("mean", "p50", "p90", "p99")}
    reading = {"min": 1.0, "max": 90.0, "mean": 45.5}
    gpu = dict.fromkeys(
        ("utilization", "memory_used_mb", "memory_usage_percent", "temperature_c", "power_draw_w"), reading
    )
    return Experiment(
        experiment_id, TASK, number, {"max-num-seqs": number, "tp-size": 2}, 10.0 + number, ExperimentStatus.SUCCESS,
        job_id=str(number), started_at=11.0 + number, completed_at=20.0 + number, objective_score=1.0 + number % 997,
        gpu_info={"model": "NVIDIA A100-SXM4-80GB", "count": 2, "device_ids": ["GPU-1", "GPU-2"], "world_size": 2},
        metrics={
            **level, "raw_results": [level] * 3, "total_requests": 300, "total_completed_requests": 300,
            "gpu_monitoring": {"sample_count": 45, "gpu_stats": {"0": gpu, "1": gpu}},
        },
    )  # fmt: skip


_MEASURED = ("ttft", "tpot", "e2e_latency", "output_throughput", "total_throughput", "total_throughput_per_gpu")


if __name__ == "__main__":
    main()
