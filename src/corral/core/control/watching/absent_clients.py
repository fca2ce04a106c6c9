"""The watch over jobs that get input from a client. If the client is gone, its job would hold its GPUs for ever."""

import logging
from collections.abc import Callable, Sequence

from corral.clock import Clock
from corral.core.control.running.interaction import Interaction
from corral.core.lifecycle import input as input_steps
from corral.core.model.errors import CorralError
from corral.core.model.fact import Delta, JobSubmitted, ServerPart
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.units import format_duration
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger

log = logging.getLogger(__name__)

ABSENT_S = 60.0
"""A client without contact for this long counts as gone. While no server runs, no time passes."""


class AbsentClients:
    """Ends jobs that wait for input which no client sends any more."""

    def __init__(self, ledger: Ledger, clock: Clock, interaction: Interaction, stop: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._interaction = interaction
        self._stop = stop
        self._since: dict[str, float] = {}
        """Jobs that may take input. The value is the time from which on their clients are awaited, in monotonic
        seconds.
        """
        self._begun = False
        ledger.subscribe(self._on_change)

    def look(self) -> None:
        """Run one round: end each job whose client has been absent for over ABSENT_S and is still needed."""
        now, jobs = self._clock.monotonic(), self._ledger.view().jobs
        if not self._begun:
            self._begun = True
            self._since |= {job.id: now for job in jobs.values() if job.spec.takes_input}
        for job_id, since in tuple(self._since.items()):
            job = jobs.get(job_id)
            if job is None or job.phase.terminal:
                self._forget(job_id)
            elif now - max(since, self._interaction.heard_at(job_id) or since) > ABSENT_S:
                self._judge(job)

    def _judge(self, job: Job) -> None:
        try:
            if self._interaction.needs_nobody(job):
                self._forget(job.id)
            else:
                self._end(job)
        except CorralError as error:
            # The job's node does not answer. The next round asks it again.
            log.info("job %s: %s", job.id, error)

    def _end(self, job: Job) -> None:
        source = "its terminal" if job.spec.terminal is not None else "the command that sent its input"
        reason = f"{source} went away, and did not come back within {format_duration(ABSENT_S)}"
        log.warning("job %s: %s", job.id, reason)

        def decide(view: View) -> Decided[str | None]:
            newest = view.jobs.get(job.id)
            if newest is None:
                return Decided((), None)
            facts = input_steps.give_up(view, newest, reason, by=ServerPart.ABSENT_CLIENTS, at=self._clock.now())
            return Decided(tuple(facts), newest.allocation_id if facts else None)

        allocation_id = self._ledger.commit(decide).result()
        if allocation_id is not None and job.phase is not Phase.PENDING:
            self._stop(allocation_id)

    def _forget(self, job_id: str) -> None:
        self._since.pop(job_id, None)
        self._interaction.forget(job_id)

    def _on_change(self, view: View, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            if isinstance(delta, JobSubmitted) and delta.job.spec.takes_input:
                self._since[delta.job.id] = self._clock.monotonic()
