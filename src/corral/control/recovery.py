"""Bringing a node together with the ledger: after a boot, when it comes or returns, and when it is given up.

Nothing starts on a node before it was reconciled: what the ledger no longer knows is ended there first. Reports are
known by the id of their launch, so that none of an old attempt is ever taken for one of a newer.
"""

import logging
import threading
from functools import partial

from corral.control.attempts import Attempt
from corral.control.dispatcher import Dispatcher
from corral.control.left_behind import LeftBehind
from corral.control.node_registry import Nodes
from corral.model.errors import CorralError
from corral.model.fact import ServerPart
from corral.model.job import Phase
from corral.model.launch import Launch, LaunchPhase, LaunchReport
from corral.ports.ledger import Decided, Ledger
from corral.ports.telemetry import NodeTelemetry

log = logging.getLogger(__name__)

RETRY_S = 2.0
"""A node that could not be reconciled is tried again this often."""


class Recovery:
    """What control does as nodes come, return and go. Every method but `wait` returns at once.

    Attributes:
        left_behind: attempts that were given up and may still run.
    """

    def __init__(self, ledger: Ledger, nodes: Nodes, dispatcher: Dispatcher, telemetry: NodeTelemetry) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._dispatcher = dispatcher
        self._attempts = dispatcher.attempts
        self._telemetry = telemetry
        self.left_behind = LeftBehind()
        self._changed = threading.Condition()
        self._visits: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._failed: dict[str, int] = {}
        """Nodes that could not be reconciled, with the visit in which that was tried."""

    def node_returned(self, node: str, visit: int) -> None:
        """The node is there: reconcile it, take over what runs there, then let things start on it."""
        with self._changed:
            self._visits[node] = visit
            self._waiting.add(node)
        if not self._nodes.worker(node).put(partial(self._visit, node, visit)):
            log.warning("node %s is reconciled later: too much waits for it", node)
            self._end_visit(node, visit, reconciled=False)

    def try_again(self) -> None:
        """Reconcile the nodes that could not be, unless they have left or come anew since."""
        with self._changed:
            failed, self._failed = self._failed, {}
            again = [
                (node, visit) for node, visit in failed.items() if self._visits[node] == visit and node in self._nodes
            ]
        for node, visit in again:
            self.node_returned(node, visit)

    def wait(self, timeout_s: float) -> bool:
        """Wait until every node that returned so far was reconciled, or could not be; False when the time is up."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def node_gone(self, node: str) -> None:
        """Nobody will hear of the node: its launches are lost, and retried as their jobs ask.

        The old attempts may still run there; when the node returns they are ended before anything starts on it.
        """
        # After this commit the view has every launch on the node: none was committed since the ledger knew it is gone.
        known = self._ledger.commit(lambda _: Decided((), None))
        known.add_done_callback(lambda done: None if done.exception() else self._give_up(node))

    def give_up_absent_nodes(self) -> None:
        """Give up what a former server had started on nodes that are not part of the cluster any more."""
        nodes = {launch.node for attempt in self._attempts.live() for launch in attempt.launches}
        for node in sorted(nodes - self._nodes.keys()):
            self.node_gone(node)

    def _give_up(self, node: str) -> None:
        what = "does not answer any more" if node in self._nodes else "is not part of this cluster any more"
        for attempt, launch in self._attempts.on(node):
            if attempt.is_over(launch.rank):
                continue
            report = LaunchReport(launch.id, LaunchPhase.DECLARED_LOST)
            if self._may_run(attempt, launch):
                why = f"node {node} {what}, and attempt {launch.id} may still run there"
                log.warning("job %s: %s", attempt.job_id, why)
                self.left_behind.add(attempt.job_id, node, why)
                report = LaunchReport(launch.id, LaunchPhase.DEAD, reason=why)
            attempt.take(launch.rank, report)
            attempt.given_up.add(launch.rank)
            self._dispatcher.outcomes.settle(attempt, by=ServerPart.HUB)

    def _may_run(self, attempt: Attempt, launch: Launch) -> bool:
        """Whether the node was asked to launch this, by this server or, it may be, by an earlier one."""
        job = self._attempts.job_of(attempt)
        return launch.rank in attempt.asked_at or not attempt.asked_at or job is None or job.started_at is not None

    def _visit(self, node: str, visit: int) -> None:
        reconciled = False
        try:
            self._reconcile(node)
            self._telemetry.readmit(node, visit)
            reconciled = True
        except CorralError as error:
            log.error("node %s cannot be reconciled with the ledger, and nothing starts on it: %s", node, error)
        self._end_visit(node, visit, reconciled=reconciled)

    def _end_visit(self, node: str, visit: int, *, reconciled: bool) -> None:
        """Note the outcome for `wait`, and for `try_again` where the node is still to be reconciled."""
        with self._changed:
            if not reconciled:
                self._failed[node] = visit
            self._waiting.discard(node)
            self._changed.notify_all()

    def _reconcile(self, node: str) -> None:
        # The hub has just told the ledger of the node's devices. After this commit the view has them.
        self._ledger.commit(lambda _: Decided((), None)).result()
        self._attempts.renew(node)
        # Launches that were given up are left out, so that the node ends them, even if the view still has them.
        launches = [one for one in self._attempts.on(node) if one[1].rank not in one[0].given_up]
        waiting = [job.id for job in self._ledger.view().jobs.values() if job.phase is Phase.PENDING and job.launches]
        answer = self._nodes.agent(node).reconcile(tuple(launch for _, launch in launches), tuple(waiting))
        for sentence in answer.remarks:
            log.warning("node %s: %s", node, sentence)
        for launch_id in answer.unknown:
            log.warning("node %s: launch %s is there but not in the ledger: it is ended", node, launch_id)
        self.left_behind.ended_on(node)
        self._take_over(node, launches)

    def _take_over(self, node: str, launches: list[tuple[Attempt, Launch]]) -> None:
        """Adopt what runs, declare lost what nothing claimed, and record the ends that were missed."""
        agent = self._nodes.agent(node)
        attempts = self._dispatcher.read(node, launches)
        for attempt, launch in launches:
            job = self._attempts.job_of(attempt)
            if job is not None and attempt.report(launch.rank).phase is LaunchPhase.UNKNOWN:
                agent.declare_lost(launch.id, job.started_at is not None)
                self._dispatcher.read(node, [(attempt, launch)])
        settled = [self._dispatcher.outcomes.settle(attempt, by=ServerPart.RECOVERY) for attempt in attempts]
        for future in settled:
            if future is not None:
                future.result()
        for attempt in attempts:
            job = self._attempts.job_of(attempt)
            if job is not None and job.phase is Phase.STOPPING:
                self._dispatcher.stop(attempt.allocation_id)
