"""The rounds among running jobs that make checkpoints: they are told to save their work, and what they have saved is
observed.

A job is told whenever it has run for a multiple of its interval, each member on a thread of its node, so that a node
that hangs delays no other.
"""

import logging
from collections.abc import Sequence
from functools import partial

from corral.clock import Clock
from corral.core.control.launching.attempts import Attempt, Attempts
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import CorralError
from corral.core.model.fact import CheckpointsObserved
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger

log = logging.getLogger(__name__)

SAME_S = 2.0
"""Two times of a checkpoint that differ by less are of the same one: they come from its age at different moments."""


class CheckpointRounds:
    """Looks after the checkpoints of running jobs."""

    def __init__(self, ledger: Ledger, attempts: Attempts, nodes: Nodes, clock: Clock) -> None:
        self._ledger = ledger
        self._attempts = attempts
        self._nodes = nodes
        self._clock = clock
        self._looked_at: float | None = None

    def look(self) -> None:
        """Run one round."""
        now, view = self._clock.now(), self._ledger.view()
        saving: list[Attempt] = []
        for attempt in self._attempts.live():
            job = view.jobs.get(attempt.job_id)
            if job is not None and job.phase is Phase.RUNNING and attempt.launches[0].checkpoint_dirs:
                saving.append(attempt)
                if self._looked_at is not None and is_due(job, self._looked_at, now):
                    self._tell(attempt, job.spec.checkpoint_signal or "")
        self._looked_at = now
        self._observe(saving, view)

    def _tell(self, attempt: Attempt, word: str) -> None:
        for launch in attempt.launches:
            if CheckpointSignal.parse(word).reaches(launch.rank):
                self._nodes.worker(launch.node).put(partial(self._tell_member, launch, word), attempt.user)

    def _tell_member(self, launch: Launch, word: str) -> None:
        try:
            self._nodes.agent(launch.node).launches.tell_to_save(launch.id, word, None)
        except CorralError as error:
            # The next time comes, and the job also saves its work before a stop.
            log.warning("launch %s was not told to save its work: %s", launch.id, error)

    def _observe(self, saving: Sequence[Attempt], view: View) -> None:
        """Take what was saved from the reports of first members, whose nodes see all directories if any does."""
        found: dict[str, float | None] = {}
        for attempt in saving:
            saved_at, before = attempt.report(0).saved_at, view.saved.get(attempt.allocation_id)
            if saved_at is None or before is None:
                if saved_at != before:
                    found[attempt.allocation_id] = saved_at
            elif abs(saved_at - before) > SAME_S:
                found[attempt.allocation_id] = saved_at
        if found:
            self._ledger.observe([CheckpointsObserved(found)])


def is_due(job: Job, since: float, now: float) -> bool:
    """Whether the job's next checkpoint comes after `since`, and is not later than `now` (Unix seconds)."""
    every_s, started_at = job.spec.checkpoint_every_s, job.started_at
    if every_s is None or started_at is None or job.spec.checkpoint_signal is None:
        return False
    return (now - started_at) // every_s > max(0.0, (since - started_at) // every_s)
