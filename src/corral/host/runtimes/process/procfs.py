"""Facts about processes from /proc: living processes, descendants, marks in environments."""

import functools
import os
from typing import NamedTuple

_READ_BYTES = 65536
_PORTION_BYTES = 4096
_LINKS_OF_ONE_THREAD = 3
_LONGEST_LINE = 1024


def read_file(path: str) -> bytes:
    """Return all of a file. Raises OSError. Uses plain system calls, for scans of all processes of a machine."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, _READ_BYTES)
        if len(data) < _PORTION_BYTES // 2:
            return data
        # /proc answers in portions of about a page, so only an empty portion is surely the end.
        portions = [data]
        while data := os.read(fd, _READ_BYTES):
            portions.append(data)
        return b"".join(portions)
    finally:
        os.close(fd)


@functools.cache
def boot_id() -> str:
    """The kernel's identifier of this boot; pids and start times mean nothing in another."""
    return read_file("/proc/sys/kernel/random/boot_id").decode().strip()


def _stat_fields(pid: int) -> list[bytes] | None:
    """Return fields 3 to 22 of /proc/PID/stat and the rest as one, or None if there is no such process."""
    try:
        # The command name is in parentheses and may hold spaces and parentheses itself.
        return read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 20)
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_ticks(pid: int) -> int | None:
    """Return the start of the process in clock ticks since boot (field 22 of proc(5) stat); None if it does not
    exist.
    """
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else None


class LocalProcess(NamedTuple):
    """The identity of one process: a pid is reused, but not together with its start time and boot."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> "LocalProcess":
        """The identity of a process that exists now. Raises ProcessLookupError if it does not."""
        ticks = start_ticks(pid)
        if ticks is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, ticks, boot_id())

    def is_alive(self) -> bool:
        """Return whether this same process still runs; a zombie does not."""
        if self.boot_id != boot_id():
            return False
        fields = _stat_fields(self.pid)
        return fields is not None and int(fields[19]) == self.start_ticks and fields[0] not in (b"Z", b"X")


def all_pids() -> list[int]:
    """Return the pids of all processes of the machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    tasks = f"/proc/{pid}/task"
    found: list[int] = []
    try:
        # The directory has two links and one per thread. This is cheaper than a listing, and nearly all processes have
        # one thread.
        tids = os.listdir(tasks) if os.stat(tasks).st_nlink > _LINKS_OF_ONE_THREAD else (pid,)
    except (FileNotFoundError, ProcessLookupError):
        return found
    for tid in tids:
        try:
            found.extend(map(int, read_file(f"{tasks}/{tid}/children").split()))
        except (FileNotFoundError, ProcessLookupError):
            # A thread that has ended meanwhile does not hide the children of other threads.
            continue
    return found


@functools.cache
def _kernel_lists_children() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _children_by_parent() -> dict[int, list[int]]:
    """Return the children of every process by the pid of their parent, for kernels without CONFIG_PROC_CHILDREN."""
    tree: dict[int, list[int]] = {}
    for pid in all_pids():
        fields = _stat_fields(pid)
        if fields:
            tree.setdefault(int(fields[1]), []).append(pid)
    return tree


def descendants(root: int) -> list[int]:
    """Return every process below `root`, without itself, parents before children. Processes forked meanwhile may be
    missed.
    """
    if _kernel_lists_children():
        children_of = _children
    else:
        tree = _children_by_parent()

        def children_of(pid: int) -> list[int]:
            return tree.get(pid, [])

    # A process can be listed twice if it is moved to the subreaper during the walk.
    found: dict[int, None] = {}
    frontier = [root]
    while frontier:
        for child in children_of(frontier.pop()):
            if child not in found:
                found[child] = None
                frontier.append(child)
    return list(found)


def descendants_of(process: LocalProcess) -> list[int]:
    """Return every process below this same process; none once it has ended, even if its number was reused."""
    found = descendants(process.pid)
    return found if process.is_alive() else []


def carries_mark(pid: int, mark: bytes) -> bool:
    """Return whether the process was started with the environment entry `mark` (NAME=value)."""
    try:
        # Framed by NULs so that one mark is never found inside a longer one.
        return b"\0" + mark + b"\0" in b"\0" + read_file(f"/proc/{pid}/environ") + b"\0"
    except OSError:
        return False


def marked(mark: bytes, uid: int | None = None) -> list[int]:
    """Return every process, of this user if one is given, with the environment entry `mark`; without the caller."""
    # Check the user first: another user's environment may be built so that reading it never ends.
    pids = (pid for pid in all_pids() if pid != os.getpid() and (uid is None or uid_of(pid) == uid))
    return [pid for pid in pids if carries_mark(pid, mark)]


def uid_of(pid: int) -> int | None:
    """Return the real user id of a process, None if it does not exist. The owner of its /proc entry may be root
    instead.
    """
    uids = _uids(pid)
    return uids[0] if uids else None


def uids_of(pid: int) -> set[int]:
    """Return all user ids of a process: real, effective, saved, and that of its files. Empty if it does not exist."""
    return set(_uids(pid))


def _uids(pid: int) -> list[int]:
    try:
        status = read_file(f"/proc/{pid}/status")
    except OSError:
        return []
    return next(
        ([int(uid) for uid in line.split()[1:]] for line in status.splitlines() if line.startswith(b"Uid:")), []
    )


def catches(pid: int, signum: int) -> bool:
    """Return whether a process has a handler for this signal; False if it is gone."""
    try:
        status = read_file(f"/proc/{pid}/status")
    except OSError:
        return False
    found = next((line for line in status.splitlines() if line.startswith(b"SigCgt:")), b"SigCgt: 0")
    return bool(int(found.split()[1], 16) >> (signum - 1) & 1)


def ancestry(pid: int) -> list[LocalProcess]:
    """Return the process, its parent, and so on, without init."""
    line: list[LocalProcess] = []
    fields = _stat_fields(pid)
    while fields and pid > 1 and len(line) < _LONGEST_LINE:
        line.append(LocalProcess(pid, int(fields[19]), boot_id()))
        pid = int(fields[1])
        fields = _stat_fields(pid)
    return line
