"""A signal that a process receives on another thread than its main one, as the kernel may choose."""

import ctypes
import signal
from pathlib import Path


def signal_another_thread(pid: int, number: signal.Signals) -> None:
    """Python's handler is to run on the main thread, which this does not wake. Raises ProcessLookupError."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if int(task.name) != pid and not ctypes.CDLL(None).tgkill(pid, int(task.name), int(number)):
            return
    raise ProcessLookupError(f"process {pid} has no other thread")
