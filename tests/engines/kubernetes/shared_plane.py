"""One control plane for all workers of a run: `python -m tests.engines.kubernetes.shared_plane DIRECTORY` keeps it.

Each worker holds a shared lock on DIRECTORY/users for as long as it lives, however it ends. The keeper waits for that
lock alone, which it gets when the last worker has gone, and then ends its processes and itself.
"""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engines.kubernetes.control_plane import START_S, ControlPlane, Processes, load, save

ROOT = Path(__file__).parents[3]


@contextmanager
def shared_plane(directory: Path) -> Iterator[ControlPlane]:
    """The control plane of this run, which the first worker to ask has started."""
    directory.mkdir(exist_ok=True)
    with (directory / "users").open("w") as users:
        with (directory / "starting").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            fcntl.flock(users, fcntl.LOCK_SH)
            plane = load(directory / "plane.json") or _started(directory)
        yield plane


def _started(directory: Path) -> ControlPlane:
    log = directory / "keeper.log"
    with log.open("ab") as file:
        # It outlives the worker that starts it: what runs as a child of this command is a child of nobody's here.
        command = [sys.executable, "-m", __name__, str(directory)]
        subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=True)
    until = time.monotonic() + START_S
    while time.monotonic() < until and not (directory / "failed").exists():
        if (plane := load(directory / "plane.json")) is not None:
            return plane
        time.sleep(0.05)
    raise RuntimeError(f"the control plane did not start:\n{log.read_text()[-3000:]}")


def _keep(directory: Path) -> None:
    processes = Processes(directory / "control-plane")
    try:
        save(processes.start(), directory / "plane.json")
        with (directory / "users").open("w") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            (directory / "plane.json").unlink()
    except BaseException:
        (directory / "failed").touch()
        raise
    finally:
        processes.stop()


if __name__ == "__main__":
    if os.fork() == 0:
        os.setsid()
        _keep(Path(sys.argv[1]))
