"""Parts of the supervisor of jobs, which is a program in C, for tests that call them one by one."""

import ctypes
import functools
import os
import subprocess
import tempfile
from ctypes import byref, c_bool, c_char_p, c_double, c_int, c_longlong, c_void_p, create_string_buffer
from pathlib import Path
from typing import Any

from corral.host.runtimes.process import native_supervisor
from corral.host.runtimes.process.records.launch_records import Exit

SOURCES = Path(native_supervisor.PATH).parent
TAIL_BYTES = 64 * 1024
"""So much of the end of a job's output is kept when its log is full."""

SPACING_S = 5.0
"""The least time between two marks of a log."""

_REPLACED = ("clock_gettime", "tell_job", "terminate_job", "kill_job")
_REASON_BYTES = 512
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "set_clock": (None, (c_double,)),
    "signal_told": (c_int, (c_int, c_void_p)),
    "make_log": (c_void_p, (c_char_p, c_longlong, c_double, c_bool)),
    "log_drain": (c_bool, (c_void_p, c_int)),
    "log_rest": (None, (c_void_p,)),
    "log_rest_ms": (c_double, (c_void_p,)),
    "log_close": (None, (c_void_p, c_char_p)),
    "write_line": (None, (c_void_p, c_char_p)),
    "error_of": (c_char_p, (c_void_p,)),
    "dropped_bytes_of": (c_longlong, (c_void_p,)),
    "make_escalation": (c_void_p, (c_void_p, c_double, c_double, c_double)),
    "escalation_limit": (None, (c_void_p, c_double, c_double)),
    "escalation_wait_ms": (c_double, (c_void_p,)),
    "escalation_go_on": (None, (c_void_p, c_bool)),
    "escalation_stop": (None, (c_void_p, c_char_p)),
    "stop_reason_of": (c_char_p, (c_void_p,)),
    "make_streams": (c_void_p, (c_char_p,)),
    "reader_of": (c_int, (c_void_p,)),
    "writer_of": (c_int, (c_void_p,)),
    "streams_answer": (None, (c_void_p,)),
    "end_streams": (None, (c_void_p,)),
    "read_boot_id": (c_bool, ()),
    "claim_launch": (c_int, (c_char_p,)),
    "write_started": (c_bool, (c_char_p, c_int, c_double)),
    "list_as_claimed": (c_bool, (c_char_p,)),
    "reserve_exit": (c_bool, (c_char_p,)),
    "record_exit": (c_bool, (c_char_p, c_int, c_int, c_char_p, c_char_p, c_double, c_double)),
    "read_stop_reason": (c_bool, (c_char_p, c_void_p)),
    "read_new_time_limit": (c_bool, (c_char_p, c_void_p)),
    "cgroup_kills_for_memory": (c_longlong, (c_char_p, c_void_p)),
}


@functools.cache
def parts() -> Any:
    """The functions of the supervisor, and of supervisor_parts.c."""
    wrapped = [f"-Wl,--wrap={name}" for name in _REPLACED]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", f"-I{SOURCES}", *wrapped]
    sources = [*sorted(SOURCES.glob("*.c")), Path(__file__).with_suffix(".c")]
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory, "parts.so")
        subprocess.run(["gcc", *flags, "-o", library, *sources], check=True, timeout=300)
        loaded = ctypes.CDLL(os.fspath(library))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    assert loaded.read_boot_id()
    return loaded


class NativeLog:
    """A job's log, as its supervisor writes it. By a clock that is set by hand where `boot_at` is one's own."""

    def __init__(self, path: str | Path, max_bytes: int, *, boot_at: float = -1.0, of_terminal: bool = False) -> None:
        self._log = parts().make_log(os.fsencode(path), max_bytes, boot_at, of_terminal)

    @property
    def error(self) -> str:
        return str(parts().error_of(self._log).decode())

    @property
    def dropped_bytes(self) -> int:
        return int(parts().dropped_bytes_of(self._log))

    @property
    def pointer(self) -> int:
        return int(self._log)

    def drain(self, pipe: int) -> bool:
        """Take what the pipe holds. False at its end."""
        return bool(parts().log_drain(self._log, pipe))

    def note(self, line: str) -> None:
        parts().write_line(self._log, line.encode())

    def rest_s(self) -> float:
        """After so long without output `rest` has something to do; negative while it has nothing."""
        return float(parts().log_rest_ms(self._log)) / 1000

    def rest(self) -> None:
        parts().log_rest(self._log)

    def close(self) -> None:
        parts().log_close(self._log, b"")


def write_exit(directory: str, exit_: Exit) -> bool:
    """Record an end in the room that was reserved; whether it could be."""
    return bool(
        parts().record_exit(
            directory.encode(),
            -1 if exit_.exit_code is None else exit_.exit_code,
            exit_.signal or 0,
            (exit_.reason or "").encode(),
            exit_.message.encode(errors="surrogateescape"),
            -1.0 if exit_.started_at is None else exit_.started_at,
            exit_.ended_at,
        )
    )


def stop_reason(directory: str) -> str | None:
    """Why the server wants the job to end, as its supervisor reads it."""
    reason = create_string_buffer(_REASON_BYTES)
    return os.fsdecode(reason.value) if parts().read_stop_reason(directory.encode(), reason) else None


def new_time_limit_s(directory: str) -> float | None:
    """The time limit that counts instead of the first, as the supervisor reads it."""
    limit_s = c_double()
    return limit_s.value if parts().read_new_time_limit(directory.encode(), byref(limit_s)) else None


def list_as_claimed(directory: str) -> bool:
    """Enter the launch of that directory in the list of claimed launches."""
    return bool(parts().list_as_claimed(directory.encode()))


def kills_for_memory(group: str) -> tuple[int, int]:
    """How many processes of a cgroup the kernel has killed for memory, and its limit in MiB."""
    limit_mib = c_longlong()
    kills = parts().cgroup_kills_for_memory(group.encode(), byref(limit_mib))
    return int(kills), limit_mib.value
