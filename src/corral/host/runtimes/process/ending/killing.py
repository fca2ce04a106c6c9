"""Ends every process of a job, and knows when none is left.

A supervisor is the subreaper of its job: a process that daemonises stays below it, and "no child left" is "nothing
left". A cgroup, if there is one, kills all in one write. If the supervisor itself is gone, its job's processes have
moved to init. Then only the cgroup and the mark in their environment identify them. Without a cgroup, a process that
cleared its environment is out of reach.
"""

import os
import resource
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from corral.host.runtimes.process.cgroups import cgroup
from corral.host.runtimes.process.procfs import (
    LocalProcess,
    ancestry,
    boot_id,
    carries_mark,
    descendants,
    descendants_of,
    marked,
    start_ticks,
)
from corral.pidfd import send_if

# A round can only miss processes that were forked during the round before. The caller repeats if they fork faster.
_FREEZE_ROUNDS = 10
_MOST_HANDLES = 1024


class Left(NamedTuple):
    """The marks of processes that a dead supervisor may have left.

    `uid` is the job's user, or None if unknown. `others` gives the living supervisors of other jobs.
    """

    mark: str
    cgroup: str | None
    uid: int | None
    others: Callable[[], frozenset[LocalProcess]] = frozenset


def signal_listed(listed: Iterable[int], list_again: Callable[[], Iterable[int]], *signums: int) -> None:
    """Signal processes that were listed a moment ago.

    By now a pid may belong to another process, of any user. So each process is held by a descriptor, and signalled if
    its pid is then listed again. If this process has no descriptor left, the second list must suffice.
    """
    waiting = list(listed)
    most = max(1, min(_MOST_HANDLES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
    for start in range(0, len(waiting), most):
        held = _held(waiting[start : start + most])
        try:
            now = set(list_again())
            for pid, handle in held:
                if pid in now:
                    _send(pid, handle, signums)
        finally:
            for _, handle in held:
                if handle is not None:
                    os.close(handle)


def _held(pids: Sequence[int]) -> list[tuple[int, int | None]]:
    """Return those of these processes that exist, each with a pidfd, or None if this process has no descriptor left."""
    held: list[tuple[int, int | None]] = []
    for pid in pids:
        try:
            held.append((pid, os.pidfd_open(pid)))
        except ProcessLookupError:
            continue
        except OSError:
            held.append((pid, None))
    return held


def _send(pid: int, handle: int | None, signums: Sequence[int]) -> None:
    try:
        for signum in signums:
            if handle is None:
                os.kill(pid, signum)
            else:
                signal.pidfd_send_signal(handle, signum)
    except (ProcessLookupError, PermissionError):
        return


def _signal_exactly(process: LocalProcess, signum: int) -> None:
    """Signal this process and never another that got its number. Raises OSError if no descriptor is left."""
    send_if(process.pid, signum, process.is_alive)


def main_pids(pid: int, *, wrapped: bool) -> list[int]:
    """Return a job's main process. If it is `wrapped` around a script, also return its only child, which runs the
    script.
    """
    return [pid, *descendants(pid)[:1]] if wrapped else [pid]


def _kill_listed(list_them: Callable[[], list[int]]) -> None:
    frozen: dict[int, None] = {}
    for _ in range(_FREEZE_ROUNDS):
        fresh = [pid for pid in list_them() if pid not in frozen]
        if not fresh:
            break
        signal_listed(fresh, list_them, signal.SIGSTOP)
        frozen.update(dict.fromkeys(fresh))
    signal_listed(frozen, list_them, signal.SIGKILL)


def kill_with_supervisor(supervisor: LocalProcess) -> None:
    """Kill a supervisor that does not end its job, after every process of that job."""
    _signal_exactly(supervisor, signal.SIGSTOP)
    _kill_listed(lambda: descendants_of(supervisor))
    _signal_exactly(supervisor, signal.SIGKILL)


def orphans(left: Left) -> list[LocalProcess]:
    """Return the processes of a job whose supervisor is gone, without the caller and processes that another job can
    claim.

    A process chooses its own environment, so the mark counts only for processes of the job's own user that do not
    descend from a living supervisor of another job.
    """
    mark = left.mark.encode()
    bearers = marked(mark, left.uid)
    others = left.others() if bearers else frozenset()
    bearers = [pid for pid in bearers if others.isdisjoint(ancestry(pid))]
    ticks = {pid: start_ticks(pid) for pid in _with_bearers(left, bearers)}
    # The marks are read again: a pid may have belonged to another process when its start time was read.
    still = _with_bearers(left, [pid for pid in bearers if carries_mark(pid, mark)])
    return [LocalProcess(pid, start, boot_id()) for pid, start in ticks.items() if start is not None and pid in still]


def _with_bearers(left: Left, bearers: Iterable[int]) -> set[int]:
    """Return the bearers of the mark, their descendants, and the processes in the cgroup, without the caller."""
    found = set(cgroup.pids(left.cgroup)) if left.cgroup else set[int]()
    for pid in bearers:
        found.update((pid, *descendants(pid)))
    return found - {os.getpid()}


def kill_orphans(left: Left, dying: dict[LocalProcess, None]) -> bool:
    """Kill the processes that a dead supervisor left. Return False if none is left.

    `dying` is the caller's, empty at first and passed again each time. A process that is being killed loses its mark
    with its memory, before it has released its open devices.
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
