"""A job that is to make room may be told first, so that it can save what it has.

The signal goes to the processes that the job has named; its stop follows when the job's grace is over.
"""

import threading
from collections.abc import Callable

from corral.clock import Clock
from corral.core.control.launching.attempts import Attempt
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase


class Checkpoints:
    """Gives jobs their time. `again(allocation_id)` is called, by a timer's thread, when the time of one is up."""

    def __init__(self, clock: Clock, again: Callable[[str], None]) -> None:
        self._clock = clock
        self._again = again

    def may_end(self, job: Job, attempt: Attempt, rank: int, signal: Callable[[str], None]) -> bool:
        """Whether a member of the job may be stopped now. The first time, one of an evicted job is signalled instead.

        `signal` sends this checkpoint signal to the member.
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
