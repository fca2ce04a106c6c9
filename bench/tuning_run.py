"""A task of the autotuner that runs, with a stand-in for the inference server on mock GPUs: what is lost between two
experiments, and what the task costs the server.

`python -m bench tuning_run` takes two minutes.
"""

import os
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.server import RunningServer, throw_away
from corral.client import Client

IDLE_S = 30.0
WATCHED_S = 30.0
PATIENCE_S = 300.0

TASK: dict[str, Any] = {
    "task_name": "bench",
    "model": {"id_or_path": "stand-in-8b"},
    "base_runtime": "stand-in",
    "optimization": {"strategy": "grid_search", "timeout_per_iteration": 300},
    "benchmark": {"traffic_scenarios": ["D(100,20)"], "num_concurrency": [1], "max_requests_per_iteration": 1_000_000},
}


def main() -> None:
    with throw_away() as server, Client(server.home) as client:
        time.sleep(2.0)
        idle_pct = _busy_pct(server, IDLE_S)
        print_pauses(client)
        print_cost(server, client, idle_pct)


def print_pauses(client: Client) -> None:
    """From the end of an experiment until the next one has its GPUs and is deployed."""
    task_id = _begun(client, list(range(1, 13)), minutes=0.03)
    _until(client, task_id, "completed")
    rows = client.experiments.list(task_id)
    assert all(row.status == "success" for row in rows), rows
    ends = [(row.started_at, row.completed_at) for row in rows]
    pauses_ms = [1e3 * (later - ended) for (_, ended), (later, _) in pairwise(ends) if ended and later]
    print(
        f"from one experiment's end to the next deployment: median {statistics.median(pauses_ms):.0f} ms, "
        f"longest {max(pauses_ms):.0f} ms of {len(pauses_ms)} (goal 500 ms)"
    )


def print_cost(server: RunningServer, client: Client, idle_pct: float) -> None:
    """While an experiment is measured, beside the same server without a task."""
    task_id = _begun(client, [8], minutes=1.0)
    _until(client, task_id, "benchmarking")
    time.sleep(2.0)
    busy_pct = _busy_pct(server, WATCHED_S)
    client.tasks.cancel(task_id)
    print(
        f"the server beside a task that measures: {busy_pct:.2f} % of a core, {idle_pct:.2f} % without it "
        f"(goal 1 % more)"
    )


def _begun(client: Client, sizes: list[int], minutes: float) -> str:
    benchmark = {**TASK["benchmark"], "max_time_per_iteration": minutes}
    row = client.tasks.create({**TASK, "parameters": {"max-num-seqs": sizes}, "benchmark": benchmark})
    client.tasks.start(row.id)
    return row.id


def _until(client: Client, task_id: str, status: str) -> None:
    """Until the task, or its newest experiment, has this status."""
    gives_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < gives_up:
        rows = client.experiments.list(task_id)[-1:]
        if status in [client.tasks.get(task_id).task.status, *(row.status for row in rows)]:
            return
        time.sleep(0.2)
    raise SystemExit(f"task {task_id} is not {status} after {PATIENCE_S:.0f} s")


def _busy_pct(server: RunningServer, seconds: float) -> float:
    before_s = _cpu_s(server.pid)
    time.sleep(seconds)
    return 100 * (_cpu_s(server.pid) - before_s) / seconds


def _cpu_s(pid: int) -> float:
    """With what its threads took that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
