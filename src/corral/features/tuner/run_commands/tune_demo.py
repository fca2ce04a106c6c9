"""`corral tune --demo`: a complete search on mock GPUs, with an inference server that computes nothing."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from corral.cli.local.server import daemon_command, described_box, start_detached, stop_server
from corral.cli.screen import write_lines
from corral.cli.server_part import require_server_part
from corral.client import Client
from corral.core.model.home import Home
from corral.features.tuner.run_commands.tune import follow_task

TASK: dict[str, Any] = {
    "task_name": "demo",
    "model": {"id_or_path": "stand-in-8b"},
    "base_runtime": "stand-in",
    "parameters": {"max-num-seqs": [4, 8, 32], "tp": [1, 2, 4]},
    "optimization": {"strategy": "grid_search", "objective": "maximize_throughput", "timeout_per_iteration": 120},
    "benchmark": {
        "traffic_scenarios": ["D(100,20)"],
        "num_concurrency": [16],
        "max_time_per_iteration": 0.05,
        "max_requests_per_iteration": 1000,
    },
    "max_parallel": 2,
}


def tune_demo() -> None:
    """Run a search with a temporary server, which is removed afterwards."""
    require_server_part("tune --demo")
    home = Home(Path(tempfile.mkdtemp(prefix="corral-tune-")))
    write_lines(
        "a temporary server with eight mock GPUs; the inference server is a stand-in",
        "that computes nothing, and answers as fast as its parameters would let it:",
        "weights divided by tp, communication, batches",
        "",
    )
    sys.stdout.flush()
    pid = None
    try:
        pid = start_detached(home, daemon_command(home, described_box(), None))
        with Client(home.root) as client:
            row = client.tasks.create(TASK)
            client.tasks.start(row.id)
            detail = follow_task(client, row.id)
    finally:
        if pid is not None:
            _stop_everything(home, pid)
        shutil.rmtree(home.root, ignore_errors=True)
    if detail.task.status != "completed":
        raise SystemExit(1)


def _stop_everything(home: Home, pid: int) -> None:
    """End all tasks, jobs and the server, also if the demonstration was interrupted."""
    from corral.cli.jobs.demo import cancel_all

    try:
        with Client(home.root) as client:
            for task in client.tasks.list():
                if task.status == "running":
                    client.tasks.cancel(task.id)
        cancel_all(home)
    finally:
        stop_server(home, pid)
