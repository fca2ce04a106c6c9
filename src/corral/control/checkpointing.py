"""A job that is to make room may be told first, so that it can save what it has.

The signal goes to every process of the job; its stop follows when the job's grace is over.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable

from corral.clock import Clock
from corral.model.job import Job, Phase


class Checkpoints:
    """Who has been told, and until when they have time. For one thread; `again` is called from timers of its own."""

    def __init__(self, clock: Clock, again: Callable[[str], None]) -> None:
        self._clock = clock
        self._again = again
        self._due: dict[str, float] = {}

    def may_end(self, job: Job, allocation_id: str, pids: Callable[[], Iterable[int]]) -> bool:
        """Whether the job may be stopped now. The first time it is asked of an evicted job, the job is told instead.

        `again(allocation_id)` is called when its time is up.
        """
        number = job.spec.checkpoint_signal
        if number is None or job.stop_reason is not Phase.PENDING:
            return True
        now = self._clock.monotonic()
        if allocation_id not in self._due:
            self._due[allocation_id] = now + job.spec.checkpoint_grace_s
            _tell(pids(), signal.Signals[f"SIG{number}"])
            timer = threading.Timer(job.spec.checkpoint_grace_s, self._again, [allocation_id])
            timer.daemon = True
            timer.start()
        return now >= self._due[allocation_id]

    def forget(self, allocation_id: str) -> None:
        """The job has ended."""
        self._due.pop(allocation_id, None)


def _tell(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
