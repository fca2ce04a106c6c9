"""Signals an evicted job before its stop, so that it can save its state.

The signal goes to the processes that the job has named. The stop follows when the job's grace period is over.
"""

import threading
from collections.abc import Callable

from corral.clock import Clock
from corral.core.control.launching.attempts import Attempt
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase


class Checkpoints:
    """Delays the stops of jobs. A timer thread calls `again(allocation_id)` when the grace period of a job is over."""

    def __init__(self, clock: Clock, again: Callable[[str], None]) -> None:
        self._clock = clock
        self._again = again

    def may_end(self, job: Job, attempt: Attempt, rank: int, signal: Callable[[str], None]) -> bool:
        """Return whether a member of the job may be stopped now. The first call for an evicted job starts its grace
        period.

        `signal` sends this checkpoint signal to the member, once.
        """
        word = job.spec.checkpoint_signal
        if word is None or job.stop_reason is not Phase.PENDING:
            return True
        if attempt.checkpoint_until is None:
            attempt.checkpoint_until = self._clock.monotonic() + job.spec.checkpoint_grace_s
            timer = threading.Timer(job.spec.checkpoint_grace_s, self._again, [attempt.allocation_id])
            timer.daemon = True
            timer.start()
        if rank not in attempt.signalled:
            attempt.signalled.add(rank)
            if CheckpointSignal.parse(word).reaches(rank):
                signal(word)
        return self._clock.monotonic() >= attempt.checkpoint_until
