"""A stand-in server in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stand_in(*options: str) -> Iterator[str]:
    """The address of one, which ends afterwards."""
    command = [sys.executable, "-m", "corral.features.tuner.engines.stand_in_server", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().split()[-1]}"
        finally:
            process.kill()
