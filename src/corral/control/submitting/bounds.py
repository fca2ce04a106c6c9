"""The range of each number in a submission. The checks and the API's description use the same table."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from corral.model.errors import Refused
from corral.model.job import Request
from corral.model.submission import ArraySpec, Submission
from corral.model.sweep import Sweep
from corral.model.terminal import MOST_CELLS, TerminalSize
from corral.model.units import MILLI_PER_DEVICE, SHARE_QUANTUM_MILLI

MAX_ARRAY_ELEMENTS = 10_000
MAX_DEVICES = 100_000
MAX_PRIORITY = 1_000_000_000
MAX_NICE = 2**31
MAX_MIB = 2**40
MAX_CPU_MILLI = 10**9
MAX_PID = 2**22
"""The largest pid there can be, PID_MAX_LIMIT of Linux."""


class Range(NamedTuple):
    """A range that includes both ends. `called` is the field's name in messages, if it has another one there."""

    least: int
    most: int
    hint: str = ""
    called: str | None = None


BOUNDS: Mapping[type[Any], Mapping[str, Range]] = {
    Submission: {
        "retries": Range(0, 1000, "0 tries once"),
        "priority": Range(-MAX_PRIORITY, MAX_PRIORITY, "a lower number runs first"),
        "nice": Range(-MAX_NICE, MAX_NICE, "100 is one step of priority"),
        "umask": Range(0, 0o777),
        "owner_pid": Range(1, MAX_PID),
    },
    Request: {
        "devices": Range(0, MAX_DEVICES, "0 is a job without a GPU", "gpus"),
        "gang_size": Range(1, MAX_DEVICES, "1 is a job without a gang"),
        "share_milli": Range(1, MILLI_PER_DEVICE, "1000 is a whole device"),
        "split_milli": Range(SHARE_QUANTUM_MILLI, MAX_DEVICES * MILLI_PER_DEVICE, "1000 is a whole device"),
        "memory_mib": Range(1, MAX_MIB),
        "memory_percent": Range(1, 100),
        "cores_percent": Range(1, 100),
        "min_memory_mib": Range(1, MAX_MIB),
        "accept_in_use": Range(0, MAX_MIB, "MiB that must be free"),
        "cpu_milli": Range(0, MAX_CPU_MILLI, "1000 is a whole core"),
        "host_memory_mib": Range(0, MAX_MIB),
        "disk_mib": Range(0, MAX_MIB),
    },
    TerminalSize: {"rows": Range(1, MOST_CELLS), "columns": Range(1, MOST_CELLS)},
    ArraySpec: {"limit": Range(1, MAX_ARRAY_ELEMENTS, "how many of its jobs run at a time", "array")},
    Sweep: {"limit": Range(1, MAX_ARRAY_ELEMENTS, "how many of its jobs run at a time", "max_running")},
}


def check_bounds(value: Submission | Request | ArraySpec | Sweep | TerminalSize) -> None:
    """Raises Refused for a number that is out of its range."""
    for name, (least, most, hint, called) in BOUNDS[type(value)].items():
        amount = getattr(value, name)
        if amount is not None and not least <= amount <= most:
            between(amount, least, most, called or name, hint)


def between(value: int | None, least: int, most: int, field: str, hint: str = "") -> None:
    """Raises Refused for a number below `least` or above `most`. None passes."""
    if value is not None and not least <= value <= most:
        raise Refused(
            f"{field} must be from {least} to {most}, not {value}" + (f" ({hint})" if hint else ""), field=field
        )
