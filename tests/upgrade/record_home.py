"""Records the home of the oldest version that this one upgrades from: `home_0011.json`, beside this file.

    git worktree add /tmp/before eb36f5f9
    cd /tmp/before && make setup
    .venv/bin/python CHECKOUT/tests/upgrade/record_home.py

runs that version's server on two mock GPUs and submits the jobs below. It stops the server while two of them run, and
writes down the ledger as SQL, and the files of the launches as they are. Paths of that machine are replaced by words in
@, which the test of the upgrade fills in again.
"""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

# The module is where that version has it.
from corral.runtimes.docker.records import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    ContainerRecords,
    HostUser,
    RunnerOrders,
)

RECORD = Path(__file__).with_name("home_0011.json")
DEVICES = """slot_name = "cuda"
device_plugin_name = "CUDADevice"
""" + "".join(
    f"""
[[devices]]
mother_uuid = "GPU-0000000{index}-0000-4000-8000-000000000000"
model_name = "Mock A100"
numa_node = 0
subproc_count = 108
memory_size = "80G"
is_mig_device = false
"""
    for index in range(2)
)
UNTIL_TOLD = "echo begun; until [ -e {home}/go ]; do sleep 0.05; done; echo went on; exit 3"
ORDERS = RunnerOrders(
    *("corral-recorded", {"Image": "nowhere/recorded:1", "Cmd": ["true"]}, [], "", [], "never"),
    owner=HostUser(os.getuid(), os.getgid(), []),
    stop_s=1.0,
    notify=("", ""),
)


def main() -> None:
    """Record; needs an environment in which `corral` is the version to record."""
    home = Path(tempfile.mkdtemp(prefix="recorded-"))
    env = {"CORRAL_HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    def corral(*words: str) -> str:
        command = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())", *words]
        return subprocess.run(command, env=env, cwd="/", check=True, stdout=subprocess.PIPE, text=True).stdout

    (home / "mock.toml").write_text(DEVICES)
    ContainerRecords(home / "container").write_orders(ORDERS)
    corral("up", "--detach", "--mock", str(home / "mock.toml"))
    clean = ("submit", "--workdir", "/")
    go_on = ("sh", "-c", UNTIL_TOLD.format(home=home))
    corral(*clean, "--name", "runs", "--", *go_on)
    corral(*clean, "--name", "is-gone", "--", *go_on)
    holder = ("corral.tuner.deployments.port_holder", "@PLACE@", "echo", "{host}", "{port}")
    corral(*clean, "--name", "experiment", "--", sys.executable, "-I", "-m", *holder)
    runner = ("corral.runtimes.docker.runner", str(home / "container"))
    corral(*clean, "--name", "container", "--", sys.executable, "-I", "-m", *runner)
    corral(*clean, "--name", "array", "--array", "0-1", "--", "sh", "-c", "echo element $CORRAL_ARRAY_INDEX")
    corral(*clean, "--name", "held", "--hold", "--", "echo", "released")
    corral(*clean, "--name", "has-ended", "--gpus", "0", "--", "echo", "done")
    while not (begun(home, "1") and begun(home, "2") and ended(home)):
        time.sleep(0.1)
    corral("down")
    try:
        RECORD.write_text(json.dumps(recorded(home), indent=1) + "\n")
    finally:
        (home / "go").touch()


def begun(home: Path, job_id: str) -> bool:
    """Whether a job's program runs."""
    log = home / f"logs/{job_id}.log"
    return log.exists() and "begun" in log.read_text()


def ended(home: Path) -> bool:
    """Whether the job that needs no GPU has ended."""
    with closing(sqlite3.connect(home / "ledger.db")) as ledger:
        return bool(ledger.execute("SELECT 1 FROM jobs WHERE name = 'has-ended' AND phase = 'SUCCEEDED'").fetchone())


def recorded(home: Path) -> dict[str, object]:
    """The ledger, and the files beside it that a later server reads, as text."""
    with closing(sqlite3.connect(home / "ledger.db")) as ledger:
        statements = [hidden(statement, home) for statement in ledger.iterdump()]
    kept = ["mock.toml", "clock.json", "claims", "container/container.json", *(f"logs/{name}.log" for name in "129")]
    paths = [path for name in kept if (path := home / name).is_file()]
    paths += [path for path in sorted((home / "launches").rglob("*")) if path.is_file()]
    return {
        "node": socket.gethostname(),
        "ledger": statements,
        "files": {str(path.relative_to(home)): hidden(path.read_text(), home) for path in paths},
    }


def hidden(text: str, home: Path) -> str:
    """Without what is of this machine and this run alone."""
    return text.replace(str(home), "@HOME@").replace(sys.executable, "@PYTHON@")


if __name__ == "__main__":
    main()
