"""Removes scratch that was kept for the next attempt of a job and is not needed: the job ended while it waited, or
on another node.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import CorralError
from corral.core.model.fact import AllocationMade, Delta, JobChanged
from corral.core.model.jobs.checkpoints import has_checkpoints
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import TERMINAL_PHASES, Phase
from corral.core.model.runs.launch import launch_id
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.ports.node import Keep

log = logging.getLogger(__name__)


def kept_of(job: Job, ledger: Ledger) -> Keep:
    """Return the part of a job's scratch that is kept after one of its launches. Raises LedgerFailed."""
    if job.id in ledger.view().jobs:
        return Keep.ALL
    if not has_checkpoints(job.spec):
        return Keep.NOTHING
    ended = ledger.find_job(job.id)
    return Keep.NOTHING if ended is None or ended.phase is Phase.SUCCEEDED else Keep.CHECKPOINTS


class KeptScratch:
    """Has the nodes of earlier attempts clean up once a job is over.

    Requests are not stored. A node that is absent now cleans up when it is reconciled.
    """

    def __init__(self, ledger: Ledger, nodes: Nodes, *, later: Callable[[Callable[[], None]], object]) -> None:
        """`later` returns at once, and runs its argument on a thread that may wait for the disk."""
        self._ledger = ledger
        self._nodes = nodes
        self._later = later
        self._before = ledger.view()

    def on_change(self, view: View, deltas: Sequence[Delta]) -> None:
        """A listener for `Ledger.subscribe`."""
        for delta in deltas:
            if isinstance(delta, JobChanged) and delta.changes.get("phase") in TERMINAL_PHASES:
                job = self._before.jobs.get(delta.job_id)
                # On the node of the last attempt the dispatcher forgets the launch.
                if job is not None and job.id not in view.jobs and job.launches > (job.phase is not Phase.PENDING):
                    self._later(partial(self._tidy, job))
        self._before = view

    def _tidy(self, job: Job) -> None:
        try:
            facts = [entry.fact for entry in self._ledger.journal(job_id=job.id)]
            keep = kept_of(job, self._ledger)
        except CorralError as error:
            log.warning("the remains of earlier attempts of job %s are not cleaned up: %s", job.id, error)
            return
        last = {
            member.node: launch_id(fact.allocation.id, rank)
            for fact in facts
            if isinstance(fact, AllocationMade)
            for rank, member in enumerate(fact.allocation.placement.members)
        }
        for node, launch in last.items():
            if node in self._nodes:
                self._nodes.worker(node).put(partial(self._forget, node, launch, keep))

    def _forget(self, node: str, launch: str, keep: Keep) -> None:
        try:
            self._nodes.agent(node).launches.forget(launch, keep=keep)
        except CorralError as error:
            log.warning("the remains of launch %s on node %s are not cleaned up: %s", launch, node, error)
