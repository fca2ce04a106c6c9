"""Ending every process of a job, and knowing when none is left.

A supervisor is the subreaper of its job: whatever daemonises stays below it, and "no child left" is "nothing left".
A cgroup, where there is one, kills it all in one write. When the supervisor itself is gone its job's processes have
moved to init, and only the cgroup and the mark in their environment still tell whose they are: without a cgroup, one
that cleared its environment is then out of reach.
"""

import os
import signal

from . import cgroup
from .procfs import ProcessIdentity, boot_id, descendants, marked, start_ticks

# Each round can only miss what was forked during the round before; what forks faster is met again by the caller.
_FREEZE_ROUNDS = 10


def _signal(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def terminate_descendants(root: int) -> None:
    """Ask every process below `root` to end; a stopped one is woken so that it can."""
    for pid in descendants(root):
        _signal(pid, signal.SIGTERM)
        _signal(pid, signal.SIGCONT)


def kill_descendants(root: int) -> None:
    """Kill every process below `root`. They are stopped first, so that none forks while its siblings die."""
    frozen: dict[int, None] = {}
    for _ in range(_FREEZE_ROUNDS):
        fresh = [pid for pid in descendants(root) if pid not in frozen]
        if not fresh:
            break
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
            frozen[pid] = None
    for pid in frozen:
        _signal(pid, signal.SIGKILL)


def orphans(mark: str, cgroup_path: str | None) -> list[int]:
    """The processes of a job whose supervisor is gone; never the caller itself."""
    found = dict.fromkeys(marked(mark.encode()))
    if cgroup_path:
        found.update(dict.fromkeys(cgroup.pids(cgroup_path)))
    found.pop(os.getpid(), None)
    return list(found)


def kill_orphans(mark: str, cgroup_path: str | None, dying: dict[ProcessIdentity, None]) -> bool:
    """Kill what a dead supervisor left behind; False when nothing is left.

    `dying` is the caller's, empty at first and handed in again each time: a process that is being killed loses its
    mark with its memory, before it has let go of the devices it has open.
    """
    if cgroup_path:
        cgroup.kill(cgroup_path)
    found = orphans(mark, cgroup_path)
    for pid in found:
        ticks = start_ticks(pid)
        if ticks is not None:
            dying[ProcessIdentity(pid, ticks, boot_id())] = None
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for pid in found:
            _signal(pid, signum)
    for process in [process for process in dying if not process.is_alive()]:
        del dying[process]
    return bool(found or dying)
