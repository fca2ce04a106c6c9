"""The watch over nodes that are drained: at the deadline the jobs that still run there go back to their queue.

A job with a checkpoint signal gets it early enough that its grace ends by the deadline.
"""

import logging
from collections.abc import Callable

from corral.clock import Clock
from corral.core.lifecycle.stopping import evict, may_stop, notice_s
from corral.core.model.devices.device import NodeCordon
from corral.core.model.fact import Fact, ServerPart
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Evict
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger

log = logging.getLogger(__name__)


class DrainWatch:
    """Stops jobs on nodes whose deadline has come. A reservation and an adopted process stay, because they cannot be
    run again.
    """

    def __init__(self, ledger: Ledger, clock: Clock, stop: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stop = stop

    def look(self) -> None:
        """Run one round: evict the overdue jobs."""
        if not overdue_jobs(self._ledger.view(), self._clock.now()):
            return
        for allocation_id in self._ledger.commit(self._evict).result():
            self._stop(allocation_id)

    def _evict(self, view: View) -> Decided[tuple[str, ...]]:
        at = self._clock.now()
        facts: list[Fact] = []
        stopped: list[str] = []
        for job, node in overdue_jobs(view, at):
            reason = _reason(node, view.node_cordons[node])
            step = evict(job, Evict(job.id, job.id, reason, EvictionRule.DRAIN), by=ServerPart.NODE_DRAIN, at=at)
            if step and job.allocation_id is not None:
                log.info("job %s: told to stop: %s; it goes back to its queue", job.id, reason)
                facts += step
                stopped.append(job.allocation_id)
        return Decided(tuple(facts), tuple(stopped))


def overdue_jobs(view: View, now: float) -> list[tuple[Job, str]]:
    """Return the jobs that must leave a drained node now, each once, with that node."""
    found: dict[str, tuple[Job, str]] = {}
    for node, cordon in sorted(view.node_cordons.items()):
        if cordon.deadline is None:
            continue
        for allocation_id in view.residents.get(node, ()):
            job = view.jobs.get(view.allocations[allocation_id].job_id)
            if job is None or job.spec.kind is not JobKind.RUN or not may_stop(job):
                continue
            if now >= cordon.deadline - notice_s(job):
                found.setdefault(job.id, (job, node))
    return list(found.values())


def _reason(node: str, cordon: NodeCordon) -> str:
    return f"node {node} is drained by {cordon.by}" + (f": {cordon.reason}" if cordon.reason else "")
