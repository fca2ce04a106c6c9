"""Bringing a node together with the ledger: after a boot, when it comes or returns, and when it is given up.

Nothing starts on a node before it was reconciled: what the ledger no longer knows is ended there first. Reports are
known by the id of their launch, so that none of an old attempt is ever taken for one of a newer.
"""

import logging
import threading
from collections.abc import Mapping
from functools import partial

from corral.core.control.launching.attempts import Attempt
from corral.core.control.launching.dispatcher import Dispatcher
from corral.core.control.launching.left_behind import LeftBehind
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import CorralError
from corral.core.model.fact import ServerPart
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport, job_number, without_script
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.node import NodeAgent
from corral.core.ports.telemetry import NodeTelemetry

log = logging.getLogger(__name__)

RETRY_S = 2.0
"""A node that could not be reconciled is tried again this often."""

_LEFT = "is not part of this cluster any more"


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
        self._waited: tuple[Mapping[str, Job], tuple[str, ...]] = ({}, ())
        self._changed = threading.Condition()
        self._visits: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._failed: dict[str, int] = {}
        """Nodes that could not be reconciled, with the visit in which that was tried."""
        self._left: dict[str, bool] = {}
        """Nodes that have left and whose last reports are still to be read, and whether that was tried in vain."""

    def node_returned(self, node: str, visit: int) -> None:
        """The node is there: reconcile it, take over what runs there, then let things start on it."""
        with self._changed:
            self._visits[node] = visit
            self._waiting.add(node)
        if not self._nodes.worker(node).put(partial(self._visit, node, visit)):
            log.warning("node %s is reconciled later: too much waits for it", node)
            self._end_visit(node, visit, reconciled=False)

    def try_again(self) -> None:
        """Do again what could not be done: reconcile nodes, unless they have left or come anew since, and ask what
        became of the launches on those that have left.
        """
        with self._changed:
            failed, self._failed = self._failed, {}
            left = [node for node, in_vain in self._left.items() if in_vain]
            again = [
                (node, visit) for node, visit in failed.items() if self._visits[node] == visit and node in self._nodes
            ]
        for node, visit in again:
            self.node_returned(node, visit)
        for node in left:
            self.node_left(node)

    def wait(self, timeout_s: float) -> bool:
        """Wait until every node that returned so far was reconciled, or could not be; False when the time is up."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def node_gone(self, node: str) -> None:
        """Nobody will hear of the node: its launches are lost, and retried as their jobs ask.

        The old attempts may still run there; when the node returns they are ended before anything starts on it.
        """
        self._give_up_soon(node, "does not answer any more")

    def node_left(self, node: str) -> None:
        """The node is not part of the cluster any more: its launches are lost, but for those that have ended.

        Their ends may be told later than that the node has left, so who speaks for it is asked for them first.
        """
        if self._nodes.departed(node) is None:
            self._give_up_soon(node, _LEFT)
            return
        with self._changed:
            self._left[node] = False
        self._nodes.worker(node).put(partial(self._look_back, node))

    def give_up_absent_nodes(self) -> None:
        """Give up what a former server had started on nodes that are not part of the cluster any more."""
        nodes = {launch.node for attempt in self._attempts.live() for launch in attempt.launches}
        for node in sorted(nodes - self._nodes.keys()):
            self.node_left(node)

    def _look_back(self, node: str) -> None:
        try:
            self._settle_what_left(node)
        except CorralError as error:
            log.warning("what became of the jobs on node %s, which has left, is asked again: %s", node, error)
            with self._changed:
                self._left[node] = True

    def _settle_what_left(self, node: str) -> None:
        """Record the ends on a node that has left, and give up the rest; nothing where that was done before.

        Raises CorralError where nobody can be asked now.
        """
        agent = self._nodes.departed(node)
        if agent is None or node not in self._left:
            return
        # After this commit the view has every launch on the node: none was committed since the ledger knew it has left.
        self._ledger.commit(lambda _: Decided((), None)).result()
        self._take_over(agent, [one for one in self._attempts.on(node) if not one[0].is_over(one[1].rank)])
        self._give_up(node, _LEFT)
        with self._changed:
            self._left.pop(node, None)

    def _give_up_soon(self, node: str, what: str) -> None:
        # After this commit the view has every launch on the node: none was committed since the ledger knew it is gone.
        known = self._ledger.commit(lambda _: Decided((), None))
        known.add_done_callback(lambda done: None if done.exception() else self._give_up(node, what))

    def _give_up(self, node: str, what: str) -> None:
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
            self._settle_what_left(node)
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
        waiting = self._waiting_of(self._ledger.view())
        answer = self._nodes.agent(node).reconcile(tuple(without_script(launch) for _, launch in launches), waiting)
        for sentence in answer.remarks:
            log.warning("node %s: %s", node, sentence)
        for launch_id in answer.unknown:
            log.warning("node %s: launch %s is there but not in the ledger: it is ended", node, launch_id)
            # As in a ledger that was restored: no other job is to be known by this number.
            self._ledger.skip_ids(job_number(launch_id))
        self.left_behind.ended_on(node)
        self._take_over(self._nodes.agent(node), launches)

    def _waiting_of(self, view: View) -> tuple[str, ...]:
        """The jobs that ran before and are to run again; found once for all nodes that come at the same time."""
        jobs, found = self._waited
        if jobs is not view.jobs:
            found = tuple(job.id for job in view.jobs.values() if job.phase is Phase.PENDING and job.launches)
            self._waited = view.jobs, found
        return found

    def _take_over(self, agent: NodeAgent, launches: list[tuple[Attempt, Launch]]) -> None:
        """Adopt what runs, declare lost what nothing claimed, and record the ends that were missed."""
        attempts = self._dispatcher.read(agent, launches)
        for attempt, launch in launches:
            job = self._attempts.job_of(attempt)
            if job is not None and attempt.report(launch.rank).phase is LaunchPhase.UNKNOWN:
                agent.declare_lost(launch.id, job.started_at is not None)
                self._dispatcher.read(agent, [(attempt, launch)])
        settled = [self._dispatcher.outcomes.settle(attempt, by=ServerPart.RECOVERY) for attempt in attempts]
        for future in settled:
            if future is not None:
                future.result()
        for attempt in attempts:
            job = self._attempts.job_of(attempt)
            if job is not None and job.phase is Phase.STOPPING:
                self._dispatcher.stop(attempt.allocation_id)
