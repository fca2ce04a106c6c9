"""Reads the command and the environment of processes, which the kernel reads from their memory.

A process can arrange its memory so that a read never ends (a page that is never delivered). Nothing can end the reading
thread then.
"""

import threading
from dataclasses import dataclass
from functools import partial

from corral.host.telemetry.processes import PROC
from corral.untrusted import Unread, guarded

_WITHIN_S = 1.0
_MOST_UNDER_WAY = 8
"""The limit for all users together. A user with many user ids can use up all of these. Then no commands or marks
are read.
"""
_COMMAND_CHARS = 256
_MOST_BYTES = 8 << 20
"""The most bytes read, which is more than the kernel allows for command and environment. A process may set the
addresses of both to any memory.
"""


@dataclass(frozen=True, slots=True)
class OwnWords:
    """The process's own words. `marked_job` is the job in its environment, true or not."""

    command: str | None
    marked_job: str | None


class MemoryReader:
    """Reads the words of processes. While a read for a user hangs, no other process of that user is read.

    A slow read is waited for only once; its result is used later. Not thread-safe.
    """

    def __init__(self, home: str | None) -> None:
        self._home = home
        self._under_way: dict[tuple[int, int], _Read] = {}

    def words_of(self, pid: int, start_ticks: int, uid: int | None) -> OwnWords | None:
        """Return the process's words, None if they are not known yet or cannot be read. Waits for at most 1 s."""
        process = (pid, start_ticks)
        read = self._under_way.get(process)
        if read is None:
            self._under_way = {key: one for key, one in self._under_way.items() if not one.done}
            if len(self._under_way) >= _MOST_UNDER_WAY or any(one.uid == uid for one in self._under_way.values()):
                return None
            read = self._under_way[process] = _Read(pid, uid, self._home)
            read.wait(_WITHIN_S)
        if not read.done:
            return None
        del self._under_way[process]
        return read.words


class _Read:
    """A read in a thread of its own, which may never end."""

    def __init__(self, pid: int, uid: int | None, home: str | None) -> None:
        self.uid = uid
        self.words: OwnWords | None = None
        self._read = partial(_read_words, pid, home)
        self._what = f"the memory of process {pid}"
        self._thread = threading.Thread(target=self._work, name="process-memory", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _work(self) -> None:
        found = guarded(self._what, self._read)
        self.words = None if isinstance(found, Unread) else found


def _read_words(pid: int, home: str | None) -> OwnWords:
    command = _read(pid, "cmdline").replace("\0", " ").strip()
    return OwnWords(command[:_COMMAND_CHARS] or None, _marked_job(_read(pid, "environ"), home))


def _marked_job(environ: str, home: str | None) -> str | None:
    variables = dict(entry.split("=", 1) for entry in environ.split("\0") if "=" in entry)
    if home is not None and variables.get("CORRAL_HOME") != home:
        return None
    return variables.get("CORRAL_JOB_ID") or None


def _read(pid: int, name: str) -> str:
    """Return a file of /proc/PID, "" if it cannot be read: the process may be gone, or belong to another user."""
    try:
        with open(f"{PROC}/{pid}/{name}", "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
