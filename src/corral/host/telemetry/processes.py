"""The host's process table, read from /proc."""

import os
from pathlib import Path
from typing import NamedTuple

from corral.core.model.jobs.job import ProcessIdentity

PROC = Path("/proc")


class Stat(NamedTuple):
    """The fields of /proc/PID/stat; `start_ticks` are clock ticks since the boot."""

    state: str
    parent_pid: int
    start_ticks: int

    @property
    def dead(self) -> bool:
        """Whether only the process's entry is left: a zombie runs nothing and holds nothing."""
        return self.state in ("Z", "X")


def read_stat(pid: int) -> Stat | None:
    """Return the process's fields, None if there is no such process."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # The name is in parentheses and may contain any character, parentheses too.
    fields = line[line.rfind(b")") + 2 :].split()
    return Stat(fields[0].decode(), int(fields[1]), int(fields[19]))


class HostProcesses:
    """Implements `ports.Processes` for this host."""

    def __init__(self) -> None:
        self._boot_id = (PROC / "sys/kernel/random/boot_id").read_text().strip()

    def identify(self, pid: int) -> ProcessIdentity | None:
        """Return the identity of a running process, None if there is none."""
        stat = read_stat(pid)
        return None if stat is None or stat.dead else ProcessIdentity(pid, stat.start_ticks, self._boot_id)

    def alive(self, process: ProcessIdentity) -> bool:
        """Return whether exactly this process still runs: not another with its pid, not one of an earlier boot."""
        return process == self.identify(process.pid)

    def uid(self, process: ProcessIdentity) -> int | None:
        """Return the real user id of the process, None if it is gone."""
        uid = real_uid(process.pid)
        return uid if self.alive(process) else None

    def family(self, pid: int) -> frozenset[int]:
        """Return the pids of a process and of all its living descendants; empty if there is no such process."""
        children: dict[int, list[int]] = {}
        for entry in os.listdir(PROC):
            stat = read_stat(int(entry)) if entry.isdigit() else None
            if stat is not None and not stat.dead:
                children.setdefault(stat.parent_pid, []).append(int(entry))
        if self.identify(pid) is None:
            return frozenset()
        found, queue = {pid}, [pid]
        while queue:
            for child in children.get(queue.pop(), ()):
                if child not in found:
                    found.add(child)
                    queue.append(child)
        return frozenset(found)


def real_uid(pid: int) -> int | None:
    """Return the real user id of a process, None if it is gone."""
    try:
        status = (PROC / str(pid) / "status").read_bytes()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith(b"Uid:")), None)
