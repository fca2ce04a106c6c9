"""How a job is ended: a signal to save its work, SIGTERM, the grace, then SIGKILL until nothing of it is left."""

import os
import time

from . import cgroup
from .killing import kill_descendants, tell_descendants, terminate_descendants
from .supervisor_orders import Orders

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

    __slots__ = ("_checkpoints", "_deadline", "_kill_retry_s", "_killing", "_orders", "_own_pid", "stop_reason")

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._own_pid = os.getpid()
        self._deadline: float | None = None
        self._killing = False
        self._kill_retry_s = KILL_RETRY_S
        self._checkpoints = False
        self.stop_reason: str | None = None

    def started(self, began_at: float) -> None:
        """The program runs since then, in seconds since boot: its time limit counts from here."""
        limit_s, orders = self._orders.time_limit_s, self._orders
        if limit_s is not None:
            self._checkpoints = bool(orders.checkpoint_signal) and orders.checkpoint_grace_s < limit_s
            checkpoint_grace_s = orders.checkpoint_grace_s if self._checkpoints else 0.0
            self._deadline = began_at + limit_s - checkpoint_grace_s

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
        elif due and self._checkpoints:
            self._tell()
        elif due:
            self.stop("timed_out")

    def stop(self, reason: str) -> None:
        """SIGTERM to all of the job; SIGKILL follows when its grace is over. Only the first reason counts."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self._deadline = uptime_s() + self._orders.kill_grace_s
            terminate_descendants(self._own_pid)

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

    def _tell(self) -> None:
        """Its time limit is near: let the job save what it has."""
        self._checkpoints = False
        self._deadline = uptime_s() + self._orders.checkpoint_grace_s
        tell_descendants(self._own_pid, self._orders.checkpoint_signal)
