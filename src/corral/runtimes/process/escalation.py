"""How a job is ended: a signal to save its work, SIGTERM, the grace, then SIGKILL until nothing of it is left."""

import os
import signal
import time
from collections.abc import Callable

from . import cgroup
from .killing import kill_descendants, main_pids, tell_descendants, tell_some_descendants, terminate_descendants
from .supervisor_orders import Orders
from .time_limit import TimeLimit, in_words, time_limit

KILL_RETRY_S = 0.05
_KILL_RETRY_LIMIT_S = 1.0


def uptime_s() -> float:
    """Seconds since boot: never jumps as the wall clock does, and counts while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Escalation:
    """What one job is told next, and when. For the thread of its supervisor.

    Attributes:
        stop_reason: why the job was told to end, None while it was not.
    """

    __slots__ = (
        "_deadline",
        "_kill_retry_s",
        "_killing",
        "_limit",
        "_main_pid",
        "_note",
        "_orders",
        "_own_pid",
        "stop_reason",
    )

    def __init__(self, orders: Orders, note: Callable[[str], None]) -> None:
        """`note` writes a line into the job's log."""
        self._orders = orders
        self._note = note
        self._own_pid = os.getpid()
        self._main_pid = 0
        self._deadline: float | None = None
        self._killing = False
        self._kill_retry_s = KILL_RETRY_S
        self._limit: TimeLimit | None = None
        self.stop_reason: str | None = None

    def started(self, began_at: float, main_pid: int) -> None:
        """The program runs since then, in seconds since boot, as this process: its time limit counts from here."""
        self._main_pid = main_pid
        self.limit_to(began_at, self._orders.time_limit_s)

    def limit_to(self, began_at: float, limit_s: float | None) -> None:
        """The job may run so long, None being for ever. What it was limited to before counts no more."""
        notice_s = self._orders.checkpoint_grace_s if self._orders.checkpoint_signal else None
        self._limit = None if limit_s is None else time_limit(began_at, limit_s, notice_s)
        if self._limit is not None and self._limit.ends_at <= uptime_s():
            # It was shortened to less than the job has run: no time is left to save anything.
            self._limit = self._limit._replace(notice_at=None)
        if self.stop_reason is None and not self._killing:
            self._deadline = self._next_moment()

    def _next_moment(self) -> float | None:
        if self._limit is None:
            return None
        return self._limit.ends_at if self._limit.notice_at is None else self._limit.notice_at

    def wait_ms(self) -> float | None:
        """How long until the next step is due, None when none is."""
        if self._deadline is None:
            return None
        # Rounded up, so that the supervisor's loop does not spin during the last millisecond.
        return max(0.0, self._deadline - uptime_s()) * 1000 + 1

    def go_on(self, *, main_ended: bool) -> None:
        """Take the step that is due: at the time limit, at the end of the grace, or as the main process left others."""
        left_behind = main_ended and self.stop_reason is None
        due = self._deadline is not None and uptime_s() >= self._deadline
        if self._killing:
            if due:
                self.kill()
        elif left_behind or (due and self.stop_reason is not None):
            self.kill()
        elif due and self._limit is not None and self._limit.notice_at is not None:
            self._give_notice(self._limit)
        elif due and self._limit is not None:
            self.stop("timed_out")
            limit, grace = in_words(self._limit.limit_s), in_words(self._orders.kill_grace_s)
            at = time.strftime("%Y-%m-%d %H:%M:%S")
            self._note(f"its time limit of {limit} was reached at {at}: SIGTERM was sent, SIGKILL follows in {grace}")

    def stop(self, reason: str) -> None:
        """SIGTERM to all of the job; SIGKILL follows when its grace is over. Only the first reason counts."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self._deadline = uptime_s() + self._orders.kill_grace_s + self._orders.spare_s
            terminate_descendants(self._own_pid)
            if self._orders.terminal is not None:
                # As when a terminal is closed: a shell at one takes no notice of SIGTERM.
                tell_descendants(self._own_pid, signal.SIGHUP)

    def kill(self) -> None:
        """SIGKILL to all of the job. To be repeated, at growing intervals, until nothing is left."""
        again, self._killing = self._killing, True
        if self._orders.cgroup:
            cgroup.kill(self._orders.cgroup)
        if again or not self._orders.cgroup:
            # After the cgroup only what left it remains, and that is met on the next round.
            kill_descendants(self._own_pid)
        self._deadline = uptime_s() + self._kill_retry_s
        self._kill_retry_s = min(self._kill_retry_s * 2, _KILL_RETRY_LIMIT_S)

    def _give_notice(self, limit: TimeLimit) -> None:
        """Its time limit is near: let the job save what it has."""
        self._limit = limit._replace(notice_at=None)
        self._deadline = limit.ends_at
        name = signal.Signals(self._orders.checkpoint_signal).name
        self._note(f"{name} was sent: the job is stopped at its time limit, in {limit.ends_at - uptime_s():.0f} s")
        if not self._orders.checkpoint_target:
            tell_descendants(self._own_pid, self._orders.checkpoint_signal)
            return
        mains, to_main = main_pids(self._main_pid, wrapped=self._orders.wrapped), self._orders.checkpoint_target == "B"
        tell_some_descendants(self._own_pid, self._orders.checkpoint_signal, lambda pid: (pid in mains) is to_main)
