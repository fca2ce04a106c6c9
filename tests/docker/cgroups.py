"""Cgroups (version 1) of what a test has started in a place of its own."""

import contextlib
import os
import time
import uuid
from pathlib import Path

from tests.host_state import RUN

CGROUPS = Path("/sys/fs/cgroup")
STOP_S = 20.0


def cgroup_name() -> str:
    """A new one, by which those of this run are known."""
    return f"corral-test-{RUN}-{uuid.uuid4().hex[:8]}"


def remove_cgroups(name: str) -> None:
    """Remove those below the one of this name. Their processes were killed, and may not all be gone yet."""
    until = time.monotonic() + STOP_S
    for top in CGROUPS.glob(f"*/{name}"):
        for directory in [Path(directory) for directory, _, _ in os.walk(top, topdown=False)]:
            while directory.exists() and time.monotonic() < until:
                with contextlib.suppress(OSError):
                    directory.rmdir()
                    break
                time.sleep(0.05)
