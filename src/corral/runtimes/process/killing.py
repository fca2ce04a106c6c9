"""Ending every process of a job, and knowing when none is left.

A supervisor is the subreaper of its job: whatever daemonises stays below it, and "no child left" is "nothing left".
A cgroup, where there is one, kills it all in one write. When the supervisor itself is gone its job's processes have
moved to init, and only the cgroup and the mark in their environment still tell whose they are: without a cgroup, one
that cleared its environment is then out of reach.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from . import cgroup
from .procfs import LocalProcess, ancestry, boot_id, descendants, marked, start_ticks

# Each round can only miss what was forked during the round before; what forks faster is met again by the caller.
_FREEZE_ROUNDS = 10


class Left(NamedTuple):
    """By what the processes are known that a dead supervisor may have left.

    `uid` is whom the job runs as, None where that is not known. `others` gives the living supervisors of other jobs.
    """

    mark: str
    cgroup: str | None
    uid: int | None
    others: Callable[[], frozenset[LocalProcess]] = frozenset


def _signal(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def _signal_exactly(process: LocalProcess, signum: int) -> None:
    """Signal this process and never another that got its pid."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(process.pid)
        try:
            if process.is_alive():
                signal.pidfd_send_signal(handle, signum)
        finally:
            os.close(handle)


def terminate_descendants(root: int) -> None:
    """Ask every process below `root` to end; a stopped one is woken so that it can."""
    for pid in descendants(root):
        _signal(pid, signal.SIGTERM)
        _signal(pid, signal.SIGCONT)


def tell_descendants(root: int, signum: int) -> None:
    """Send a signal to every process below `root`."""
    tell_some_descendants(root, signum, lambda _: True)


def tell_some_descendants(root: int, signum: int, meant: Callable[[int], bool]) -> None:
    """Send a signal to the processes below `root` that are meant."""
    for pid in descendants(root):
        if meant(pid):
            _signal(pid, signum)


def main_pids(pid: int, *, wrapped: bool) -> list[int]:
    """A job's main process, and where that is `wrapped` around a script also its only child, which runs the script."""
    return [pid, *descendants(pid)[:1]] if wrapped else [pid]


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


def kill_with_supervisor(supervisor: LocalProcess) -> None:
    """Kill a supervisor that does not end its job, after every process of that job."""
    _signal_exactly(supervisor, signal.SIGSTOP)
    if supervisor.is_alive():
        kill_descendants(supervisor.pid)
    _signal_exactly(supervisor, signal.SIGKILL)


def orphans(left: Left) -> list[LocalProcess]:
    """The processes of a job whose supervisor is gone; never the caller itself, or what another job can claim.

    An environment is what its process says of itself, so the mark counts only for a process of the job's own user, and
    of none that descends from a living supervisor of another job.
    """
    found = dict.fromkeys(cgroup.pids(left.cgroup)) if left.cgroup else {}
    bearers = marked(left.mark.encode(), left.uid)
    others = left.others() if bearers else frozenset()
    for pid in bearers:
        if others.isdisjoint(ancestry(pid)):
            found.update(dict.fromkeys([pid, *descendants(pid)]))
    found.pop(os.getpid(), None)
    ticks = {pid: start_ticks(pid) for pid in found}
    return [LocalProcess(pid, start, boot_id()) for pid, start in ticks.items() if start is not None]


def kill_orphans(left: Left, dying: dict[LocalProcess, None]) -> bool:
    """Kill what a dead supervisor left behind; False when nothing is left.

    `dying` is the caller's, empty at first and handed in again each time: a process that is being killed loses its
    mark with its memory, before it has let go of the devices it has open.
    """
    if left.cgroup:
        cgroup.kill(left.cgroup)
    found = orphans(left)
    dying.update(dict.fromkeys(found))
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for process in found:
            _signal_exactly(process, signum)
    for process in [process for process in dying if not process.is_alive()]:
        del dying[process]
    return bool(found or dying)
