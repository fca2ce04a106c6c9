"""Holds devices for something that Corral did not start: a person's session, or a process that ran already.

Nothing is launched. A watch lasts as long as its owner's process lives, or until its time limit. State is in memory
only: the ledger has the owner's identity, and after a restart the dispatcher passes every live launch again.
"""

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from corral.clock import Clock
from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.jobs.job import Job, JobKind, ProcessIdentity
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport, Lineage
from corral.core.ports.host import Processes
from corral.core.ports.runtime import Execution, InnerCommand, MainProcesses
from corral.pidfd import exit_status, send_if

LOOK_AGAIN_S = 0.05
REAPED_WITHIN_S = 1.0
"""The time limit for the parent of an ended process to reap it. Only then does the kernel report how the
process ended.
"""

END_NOT_KNOWN = "it ended; this kernel does not report how processes end that Corral did not start"


@dataclass(slots=True)
class _Watch:
    job: Job
    started_at: float
    deadline: float | None
    pidfd: int | None
    gone_at: float | None = None
    kill_at: float | None = None
    stopping_as: Phase | None = None
    family: tuple[ProcessIdentity, ...] = ()


class WatchRuntime:
    """Watches owners by pidfd, on one thread. `on_event(launch_id)` is called when a watch starts or ends."""

    def __init__(
        self, processes: Processes, clock: Clock, on_event: Callable[[str], None], *, kill_grace_s: float
    ) -> None:
        self._processes = processes
        self._clock = clock
        self._on_event = on_event
        self._kill_grace_s = kill_grace_s
        self._lock = threading.Lock()
        self._watches: dict[str, _Watch] = {}
        self._over: dict[str, LaunchReport] = {}
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def launch(self, launch: Launch) -> None:
        """Begin to watch the owner of a launch. Does nothing if the launch is known already."""
        job = launch.job
        with self._lock:
            if launch.id in self._watches or launch.id in self._over:
                return
            pidfd = self._open(job)
            now = self._clock.now()
            started_at = now if job.started_at is None else job.started_at
            deadline = self._deadline(started_at, job.spec.time_limit_s)
            if job.spec.owner is not None and pidfd is None:
                self._over[launch.id] = self._ended(launch.id, job, started_at, None, None)
            else:
                self._watches[launch.id] = _Watch(job, started_at, deadline, pidfd)
        self._wake()
        self._on_event(launch.id)

    def stop(self, launch_id: str) -> None:
        """End a reservation at once. An adopted process gets SIGTERM, and SIGKILL after the grace."""
        with self._lock:
            watch = self._watches.get(launch_id)
            if watch is not None:
                self._stop(launch_id, watch, Phase.CANCELLED)
        self._wake()
        self._on_event(launch_id)

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Replace the time limit of a watch. The limit counts from the start of the job."""
        with self._lock:
            watch = self._watches.get(launch_id)
            if watch is not None:
                watch.deadline = self._deadline(watch.started_at, time_limit_s)
        self._wake()

    def report(self, launch_id: str) -> LaunchReport:
        """Return the report: RUNNING while the owner lives, EXITED afterwards."""
        with self._lock:
            watch = self._watches.get(launch_id)
            if watch is not None:
                return LaunchReport(launch_id, LaunchPhase.RUNNING, started_at=watch.started_at)
            return self._over.get(launch_id, LaunchReport(launch_id, LaunchPhase.UNKNOWN))

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        """Make sure that this launch is never watched. Return False if it is watched now, or if it `ran`."""
        with self._lock:
            if launch_id in self._watches:
                return False
            phase = LaunchPhase.DEAD if ran else LaunchPhase.DECLARED_LOST
            self._over[launch_id] = LaunchReport(launch_id, phase)
            return not ran

    def launches(self) -> tuple[str, ...]:
        """Return the ids of watched launches, and of ended ones that were not forgotten."""
        with self._lock:
            return tuple(sorted({*self._watches, *self._over}))

    def forget(self, launch_id: str) -> None:
        """Remove the record of an ended watch."""
        with self._lock:
            self._over.pop(launch_id, None)

    def pids(self, launch_id: str) -> frozenset[int]:
        """Return the pids of the owner's process and of its descendants."""
        with self._lock:
            watch = self._watches.get(launch_id)
        if watch is None or watch.job.spec.owner is None or not self._processes.alive(watch.job.spec.owner):
            return frozenset()
        return self._processes.family(watch.job.spec.owner.pid)

    def main_processes(self, launch_id: str) -> MainProcesses:
        """Return the owner: the adopted process, or the process with whose end a reservation ends."""
        with self._lock:
            watch = self._watches.get(launch_id)
        owner = None if watch is None else watch.job.spec.owner
        gone = owner is None or not self._processes.alive(owner)
        return MainProcesses() if gone or owner is None else MainProcesses(frozenset([owner.pid]))

    def lineage(self, launch_id: str) -> Lineage:
        """Return the owner as the root of the launch's processes.

        The owner of a reservation counts only if it belongs to the job's user, because anybody can name a process.
        """
        with self._lock:
            watch = self._watches.get(launch_id)
        if watch is None or watch.job.spec.owner is None:
            return Lineage()
        spec, owner = watch.job.spec, watch.job.spec.owner
        named = spec.kind is JobKind.RESERVE and spec.uid is not None
        return Lineage() if named and self._processes.uid(owner) != spec.uid else Lineage(owner)

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        raise Refused("Corral runs no command in a process that it has not started")

    def close(self) -> None:
        """Stop watching. No owner's process is ended."""
        self._closing = True
        self._wake()
        self._thread.join(timeout=5)
        with self._lock:
            for watch in self._watches.values():
                self._close_pidfd(watch)

    def _deadline(self, started_at: float, limit_s: float | None) -> float | None:
        """Return the time of the limit by the monotonic clock, None without a limit."""
        if limit_s is None:
            return None
        return self._clock.monotonic() + max(0.0, started_at + limit_s - self._clock.now())

    def _open(self, job: Job) -> int | None:
        """Return a pidfd of the owner, None if it is gone. The identity is checked after opening, so it cannot be a
        later process.
        """
        owner = job.spec.owner
        if owner is None:
            return None
        try:
            pidfd = os.pidfd_open(owner.pid)
        except ProcessLookupError:
            return None
        except OSError as error:
            raise BackendFailed(f"process {owner.pid} cannot be watched: {error.strerror}") from error
        if self._processes.alive(owner):
            return pidfd
        os.close(pidfd)
        return None

    def _stop(self, launch_id: str, watch: _Watch, ending: Phase) -> None:
        if watch.job.spec.kind is JobKind.RESERVE:
            self._end(launch_id, watch, ending)
            return
        if watch.stopping_as is None and watch.job.spec.owner is not None:
            watch.stopping_as = ending
            members = (self._processes.identify(pid) for pid in self._processes.family(watch.job.spec.owner.pid))
            watch.family = tuple(member for member in members if member is not None)
            watch.kill_at = self._clock.monotonic() + self._kill_grace_s
            self._signal(watch, signal.SIGTERM)

    def _end_when_asked(self, launch_id: str, watch: _Watch, now: float) -> None:
        """End a watch whose owner is gone, once the kernel reports how it ended, or after REAPED_WITHIN_S."""
        assert watch.pidfd is not None
        assert watch.gone_at is not None
        status = None if watch.job.spec.kind is JobKind.RESERVE else exit_status(watch.pidfd)
        if status is not None or watch.job.spec.kind is JobKind.RESERVE or now - watch.gone_at >= REAPED_WITHIN_S:
            self._end(launch_id, watch, watch.stopping_as, status)

    def _end(self, launch_id: str, watch: _Watch, ending: Phase | None, status: int | None = None) -> None:
        del self._watches[launch_id]
        self._close_pidfd(watch)
        self._over[launch_id] = self._ended(launch_id, watch.job, watch.started_at, ending, status)

    def _ended(
        self, launch_id: str, job: Job, started_at: float, ending: Phase | None, status: int | None
    ) -> LaunchReport:
        """Return the final report.

        A reservation succeeds, whatever ended it, unless it was cancelled. An adopted process ends as the kernel
        reports; without such a report it is lost.
        """
        report = LaunchReport(launch_id, LaunchPhase.EXITED, started_at=started_at, ended_at=self._clock.now())
        if job.spec.kind is JobKind.RESERVE:
            reason = {None: "the session that held it ended", Phase.TIMED_OUT: "its time was up"}.get(ending)
            return replace(report, ending=ending if ending is Phase.CANCELLED else Phase.SUCCEEDED, reason=reason)
        if status is None:
            return (
                replace(report, ending=ending, reason=None)
                if ending
                else replace(report, phase=LaunchPhase.DEAD, reason=END_NOT_KNOWN)
            )
        signal_number = -status if status < 0 else None
        exit_code = 128 - status if status < 0 else status
        natural = Phase.SUCCEEDED if status == 0 else Phase.FAILED
        return replace(report, ending=ending or natural, exit_code=exit_code, signal=signal_number)

    @staticmethod
    def _close_pidfd(watch: _Watch) -> None:
        if watch.pidfd is not None:
            os.close(watch.pidfd)
            watch.pidfd = None

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def _run(self) -> None:
        while not self._closing:
            with self._lock:
                by_fd = {
                    watch.pidfd: name
                    for name, watch in self._watches.items()
                    if watch.pidfd is not None and watch.gone_at is None
                }
                timeout_s = self._next_deadline_s()
            poll = select.poll()
            for fd in (self._wake_read, *by_fd):
                poll.register(fd, select.POLLIN)
            ready = {fd for fd, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            with self._lock:
                changed = self._advance({by_fd[fd] for fd in ready if fd in by_fd})
            for launch_id in changed:
                self._on_event(launch_id)

    def _next_deadline_s(self) -> float | None:
        moments = [
            moment
            for watch in self._watches.values()
            for moment in (watch.kill_at if watch.stopping_as else watch.deadline,)
            if moment is not None
        ]
        if any(watch.gone_at is not None for watch in self._watches.values()):
            return LOOK_AGAIN_S
        return max(0.0, min(moments) - self._clock.monotonic()) if moments else None

    def _advance(self, gone: set[str]) -> list[str]:
        """End watches whose owner is gone or whose time is up, and kill processes that outlive their stop. Return the
        ids of ended watches.
        """
        now = self._clock.monotonic()
        changed = []
        for launch_id, watch in sorted(self._watches.items()):
            if launch_id in gone:
                self._signal(watch, signal.SIGKILL)
                watch.gone_at = now
            if watch.gone_at is not None:
                self._end_when_asked(launch_id, watch, now)
            elif watch.stopping_as is not None and watch.kill_at is not None and now >= watch.kill_at:
                self._signal(watch, signal.SIGKILL)
                watch.kill_at = now + self._kill_grace_s
            elif watch.stopping_as is None and watch.deadline is not None and now >= watch.deadline:
                self._stop(launch_id, watch, Phase.TIMED_OUT)
            if launch_id not in self._watches:
                changed.append(launch_id)
        return changed

    def _signal(self, watch: _Watch, number: signal.Signals) -> None:
        """Signal those processes that were the owner's family when the stop began and still live."""
        for member in watch.family:
            # If no descriptor is left, the process is signalled in the next round.
            with contextlib.suppress(OSError):
                send_if(member.pid, number, partial(self._processes.alive, member))
