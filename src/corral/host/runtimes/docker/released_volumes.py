"""Unmounts, in a process of its own, the volumes that a killed runner has left staged for a container.

The server uses it because it has threads: Python code in a fork of it may wait for a lock for ever (decision 84).
"""

import logging
import subprocess
import sys
from contextlib import suppress

from corral.host.runtimes.docker.opened_volumes import is_staged, release

log = logging.getLogger(__name__)

_RELEASED_S = 15.0
_KILLED_S = 1.0


def release_apart(name: str, docker_pid: int | None) -> None:
    """Unmount the volumes staged for a container, if there are any. Give up after a time limit."""
    if not is_staged(name, docker_pid):
        return
    pid = () if docker_pid is None else (str(docker_pid),)
    helper = subprocess.Popen(
        [sys.executable, "-I", "-m", "corral.host.runtimes.docker.released_volumes", name, *pid],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        helper.wait(_RELEASED_S)
    except subprocess.TimeoutExpired:
        helper.kill()
        # A process that hangs in the kernel cannot be ended.
        with suppress(subprocess.TimeoutExpired):
            helper.wait(_KILLED_S)
    if is_staged(name, docker_pid):
        log.warning("the mounts of container %s are not removed: its helper ended, or took too long", name)


if __name__ == "__main__":
    release(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else None)
