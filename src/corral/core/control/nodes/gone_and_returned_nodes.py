"""Reconciles a node with the ledger: after a restart, when it joins or returns, and when it is given up.

No job starts on a node before the node was reconciled. Launches that the ledger does not know are ended first. Reports
carry the id of their launch, so a report of an old attempt is never taken for one of a newer attempt.
"""

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from corral.core.control.launching.attempts import Attempt
from corral.core.control.launching.dispatcher import Dispatcher
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
"""The interval at which a failed reconciliation of a node is repeated."""

MOST_SKIPPED = 1_000_000
"""The most ids that are skipped for a launch on a node: a node's word for a launch may be made up."""

_LEFT = "is not part of this cluster any more"


class Recovery:
    """Reacts to nodes that join, return and leave. Every method but `wait` returns at once.

    Attributes:
        left_behind: warnings about given-up attempts that may still run.
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
        """Nodes whose reconciliation failed, with the number of the connection in which it was tried."""
        self._not_given_up: dict[str, tuple[int, str]] = {}
        """Nodes whose launches could not be given up, because the ledger could not be written: the number of the node's
        last connection, and why they are given up.
        """
        self._left: dict[str, bool] = {}
        """Nodes that have left and whose last reports are still unread. The value says whether an attempt to read them
        failed.
        """

    def node_returned(self, node: str, visit: int) -> None:
        """Reconcile a connected node, take over its running launches, then let jobs start on it."""
        with self._changed:
            self._visits[node] = visit
            self._waiting.add(node)
        if not self._nodes.worker(node).put(partial(self._visit, node, visit)):
            log.warning("node %s is reconciled later: too many tasks wait for it", node)
            self._end_visit(node, visit, reconciled=False)

    def try_again(self) -> None:
        """Repeat failed steps: reconcile nodes that have neither left nor reconnected since, read the last reports of
        nodes that have left, and give up launches on nodes that have not reconnected.
        """
        with self._changed:
            failed, self._failed = self._failed, {}
            left = [node for node, in_vain in self._left.items() if in_vain]
            again = [
                (node, visit) for node, visit in failed.items() if self._visits[node] == visit and node in self._nodes
            ]
            not_given_up, self._not_given_up = self._not_given_up, {}
            gone = [(node, why) for node, (visit, why) in not_given_up.items() if self._visits.get(node, 0) == visit]
        for node, why in gone:
            self._give_up_soon(node, why)
        for node, visit in again:
            self.node_returned(node, visit)
        for node in left:
            self.node_left(node)

    def wait(self, timeout_s: float) -> bool:
        """Wait until each connected node was reconciled, or its reconciliation failed. Return False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def node_gone(self, node: str) -> None:
        """Record the launches of an unreachable node as lost. They are retried as their jobs ask.

        The old attempts may still run there. When the node returns they are ended before any job starts on it.
        """
        self._give_up_soon(node, "does not answer any more")

    def node_left(self, node: str) -> None:
        """Record the launches of a node that has left the cluster as lost, unless they have ended.

        The report of an end may come after the node has left. So the agent that answers for the node is asked first.
        """
        if self._nodes.departed(node) is None:
            self._give_up_soon(node, _LEFT)
            return
        with self._changed:
            self._left[node] = False
        self._nodes.worker(node).put(partial(self._look_back, node))

    def give_up_absent_nodes(self) -> None:
        """Give up launches of an earlier server on nodes that have left the cluster."""
        nodes = {launch.node for attempt in self._attempts.live() for launch in attempt.launches}
        for node in sorted(nodes - self._nodes.keys()):
            self.node_left(node)

    def _look_back(self, node: str) -> None:
        try:
            self._settle_what_left(node)
        except CorralError as error:
            log.warning("the ends of the jobs on node %s, which has left, are asked for again: %s", node, error)
            with self._changed:
                self._left[node] = True

    def _settle_what_left(self, node: str) -> None:
        """Record the ends on a node that has left, and give up its other launches. Does nothing if that was done
        before.

        Raises CorralError if the agent for the node cannot be asked now.
        """
        agent = self._nodes.departed(node)
        if agent is None or node not in self._left:
            return
        # After this commit the view has every launch on the node: none was committed after the ledger knew that it has
        # left.
        self._ledger.commit(lambda _: Decided((), None)).result()
        self._take_over(agent, [one for one in self._attempts.on(node) if not one[0].is_over(one[1].rank)])
        self._give_up(node, _LEFT)
        with self._changed:
            self._left.pop(node, None)

    def _give_up_soon(self, node: str, what: str) -> None:
        # After this commit the view has every launch on the node: none was committed after the ledger knew that it is
        # gone.
        visit = self._visits.get(node, 0)

        def known(done: "Future[None]") -> None:
            if done.exception() is None:
                self._give_up(node, what)
                return
            with self._changed:
                self._not_given_up[node] = visit, what

        self._ledger.commit(lambda _: Decided((), None)).add_done_callback(known)

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
        """Return whether this server asked the node to launch this, or an earlier server may have done so."""
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
        """Record the result for `wait`, and a failure for `try_again`."""
        with self._changed:
            if not reconciled:
                self._failed[node] = visit
            self._waiting.discard(node)
            self._changed.notify_all()

    def _reconcile(self, node: str) -> None:
        # The hub has just told the ledger of the node's devices. After this commit the view has them.
        self._ledger.commit(lambda _: Decided((), None)).result()
        self._attempts.renew(node)
        # Launches that were given up are left out. So the node ends them, even if the view still has them.
        launches = [one for one in self._attempts.on(node) if one[1].rank not in one[0].given_up]
        waiting = self._waiting_of(self._ledger.view())
        allocated = tuple(without_script(launch) for _, launch in launches)
        answer = self._nodes.agent(node).launches.reconcile(allocated, waiting)
        for sentence in answer.remarks:
            log.warning("node %s: %s", node, sentence)
        for launch_id in answer.unknown:
            log.warning("node %s: launch %s is there but not in the ledger: it is ended", node, launch_id)
            # This happens after a ledger was restored. No other job may get this number.
            self._ledger.skip_ids(job_number(launch_id), MOST_SKIPPED)
        self.left_behind.ended_on(node)
        self._take_over(self._nodes.agent(node), launches)

    def _waiting_of(self, view: View) -> tuple[str, ...]:
        """Return the ids of jobs that ran before and wait to run again. The result is cached for all nodes that
        join together.
        """
        jobs, found = self._waited
        if jobs is not view.jobs:
            found = tuple(job.id for job in view.jobs.values() if job.phase is Phase.PENDING and job.launches)
            self._waited = view.jobs, found
        return found

    def _take_over(self, agent: NodeAgent, launches: list[tuple[Attempt, Launch]]) -> None:
        """Adopt running launches, declare unclaimed launches lost, and record ends that were missed."""
        attempts = self._dispatcher.read(agent, launches)
        for attempt, launch in launches:
            job = self._attempts.job_of(attempt)
            if job is not None and attempt.report(launch.rank).phase is LaunchPhase.UNKNOWN:
                agent.launches.declare_lost(launch.id, ran=job.started_at is not None)
                self._dispatcher.read(agent, [(attempt, launch)])
        settled = [self._dispatcher.outcomes.settle(attempt, by=ServerPart.RECOVERY) for attempt in attempts]
        for future in settled:
            if future is not None:
                future.result()
        for attempt in attempts:
            job = self._attempts.job_of(attempt)
            if job is not None and job.phase is Phase.STOPPING:
                self._dispatcher.stop(attempt.allocation_id)


class LeftBehind:
    """The warnings, in memory until the node returns and the attempts are ended there. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warnings: dict[str, dict[str, str]] = {}
        """The warnings by node, then by job id."""

    def add(self, job_id: str, node: str, warning: str) -> None:
        """Store a warning that an attempt of this job was given up on this node; a sentence without its full stop."""
        with self._lock:
            self._warnings.setdefault(node, {})[job_id] = warning

    def ended_on(self, node: str) -> None:
        """Delete the warnings of a node that has returned: its given-up attempts are ended."""
        with self._lock:
            self._warnings.pop(node, None)

    def warning(self, job_id: str) -> str | None:
        """Return the warnings about a job's attempts that may still run, None if there are none."""
        with self._lock:
            found = [jobs[job_id] for _, jobs in sorted(self._warnings.items()) if job_id in jobs]
        return "; ".join(found) or None
