"""Runs users' notification commands at the end of jobs: passes due notifications to nodes.

The commit of a job's end also puts its notification into the ledger, as due. A node stores a notification before it
confirms it, and runs none twice. After the confirmation the notification is no longer due. So a killed server loses
none and duplicates none.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence, Set
from concurrent.futures import Future
from functools import partial
from typing import Any

from corral.clock import Clock
from corral.core.control.launching.environment import hidden, submitted_with
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import BackendFailed, CorralError, NodeUnreachable, Refused
from corral.core.model.fact import Fact, ServerPart
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.notification import Notification
from corral.core.model.jobs.phase import Phase
from corral.core.model.printable import printable
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.features.channels.facts import NotificationGiven
from corral.features.channels.slice import DueNotification, NoticesSlice

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.5
GIVEN_AT_ONCE = 16
"""The most notifications that a node receives in one round: it has other work."""

MOST_REASON_CHARACTERS = 2000

_WORST_FIRST = (Phase.FAILED, Phase.LOST, Phase.TIMED_OUT, Phase.CANCELLED, Phase.SUCCEEDED)

Due = tuple[str, DueNotification]
"""The id of a job or array, and its end."""


class Notifications:
    """Passes due notifications to nodes, round by round. `look` is called on one thread; calls to a node run on the
    node's thread.
    """

    def __init__(self, ledger: Ledger, nodes: Nodes, clock: Clock) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._clock = clock
        self._places: dict[Due, str | None] = {}
        """The node of each job's last run, None if it never ran."""
        self._asked: dict[Due, str] = {}
        """Nodes that did not answer a request: they may have the notification."""
        self._busy: set[str] = set()
        self._said: dict[Due, str] = {}

    def look(self) -> None:
        """Run one round: pass due notifications to nodes that answer."""
        snapshot = self._ledger.snapshot()
        view, due = snapshot.view, snapshot.of(NoticesSlice).notifications
        self._prune(set(due.items()))
        if not due:
            return
        live_arrays = {job.array_id for job in view.jobs.values() if job.array_id is not None}
        by_node: dict[str, list[Due]] = defaultdict(list)
        for one in sorted(due.items(), key=lambda item: (item[1].at, item[0])):
            node = None if one[0] in live_arrays else self._node_for(view, one)
            if node is not None:
                by_node[node].append(one)
        for node, waiting in by_node.items():
            if node not in self._busy:
                self._busy.add(node)
                if not self._nodes.worker(node).put(partial(self._give_all, node, waiting)):
                    self._busy.discard(node)

    def _prune(self, due: Set[Due]) -> None:
        """Delete the records of notifications that are no longer due."""
        remembered: tuple[dict[Due, Any], ...] = (self._places, self._asked, self._said)
        for known in remembered:
            for one in list(known):
                if one not in due:
                    known.pop(one, None)

    def _node_for(self, view: View, due: Due) -> str | None:
        """Return the node for the notification, None while it does not answer.

        This is the node where rank 0 ran last. If the job never ran or the node is gone, any answering node will do.
        """
        asked = self._asked.get(due)
        if asked is not None:
            return asked if _answers(view, asked) and asked in self._nodes else None
        if due not in self._places:
            self._places[due] = self._ran_on(due[1].job_id)
        place = self._places[due]
        gone = place is None or place not in self._nodes or (place in view.silences and view.silences[place].gone)
        if not gone:
            return place if place is not None and _answers(view, place) else None
        return next((name for name in sorted(self._nodes) if _answers(view, name)), None)

    def _ran_on(self, job_id: str) -> str | None:
        job = self._ledger.find_job(job_id)
        allocation = None if job is None else self._ledger.last_allocation(job)
        return None if allocation is None else allocation.placement.members[0].node

    def _give_all(self, node: str, waiting: Sequence[Due]) -> None:
        full: set[str] = set()
        given: list[Due] = []
        try:
            for due in waiting:
                if due[1].user in full:
                    continue
                if len(given) >= GIVEN_AT_ONCE:
                    break
                if self._give(node, due):
                    given.append(due)
                else:
                    full.add(due[1].user)
        except NodeUnreachable as error:
            self._say(due, f"node {node} does not take the notification of job {due[0]}: {error}")
            self._asked[due] = node
        finally:
            for done in [self._ledger.commit_in(NoticesSlice, partial(self._given, due)) for due in given]:
                _settle(done)
            self._busy.discard(node)

    def _give(self, node: str, due: Due) -> bool:
        """Return True if the node has the notification or there is nothing to run, False if it must be tried again."""
        try:
            notification = self._notification(node, due)
            if notification is None:
                return True
            if (host := self._nodes.agent(node).host) is None:
                raise Refused(f"there is no host to run it on at node {node}; corral channel tells of ends instead")
            return host.notify(notification)
        except NodeUnreachable:
            raise
        except Refused as refused:
            log.error("the notification of job %s cannot be run: %s", due[0], refused)
            return True
        except BackendFailed as error:
            self._say(due, f"the notification of job {due[0]} is tried again: {error}")
            return False

    def _notification(self, node: str, due: Due) -> Notification | None:
        """Return the notification, None if the job was requeued meanwhile: it will end again."""
        key, end = due
        job = self._ledger.find_job(end.job_id)
        if job is None or job.spec.notify is None or not job.phase.terminal:
            return None
        elements = (job,) if job.array_id is None else self._ledger.find_array(job.array_id)
        if not all(element.phase.terminal for element in elements):
            return None
        spec = job.spec
        unseen = hidden(self._ledger.view().nodes.get(node))
        env = {**submitted_with(job), **outcome(job, elements), "CORRAL_NODE": node, **unseen}
        return Notification(
            id=f"{key}-{int(end.at * 1000)}",
            job_id=job.id,
            user=spec.user,
            command=spec.notify or "",
            env=tuple(sorted(env.items())),
            workdir=spec.workdir,
            umask=spec.umask,
            rlimits=spec.rlimits,
            uid=spec.uid,
            gid=spec.gid,
            groups=spec.groups,
        )

    def _given(self, due: Due, known: NoticesSlice) -> Decided[None]:
        key, end = due
        facts: tuple[Fact, ...] = ()
        if known.notifications.get(key) == end:
            facts = (NotificationGiven(key, at=self._clock.now(), by=ServerPart.NOTIFICATIONS),)
        return Decided(facts, None)

    def _say(self, due: Due, sentence: str) -> None:
        """Log the sentence once."""
        if self._said.get(due) != sentence:
            self._said[due] = sentence
            log.warning("%s", sentence)


def outcome(job: Job, elements: Sequence[Job]) -> dict[str, str]:
    """Return the variables for a notification: the end of the job, or of all elements of its array. `job` ended last.

    The phase of an array is the worst of its elements, and the exit code the highest.
    """
    variables = {"CORRAL_JOB_ID": job.array_id or job.id, "CORRAL_JOB_NAME": job.spec.name}
    codes = [one.exit_code for one in elements if one.exit_code is not None]
    reason = job.reason or ""
    if job.array_id is not None:
        variables["CORRAL_ARRAY_ID"] = job.array_id
        counts = [(sum(one.phase is phase for one in elements), phase) for phase in _WORST_FIRST]
        reason = ", ".join(f"{count} {phase}" for count, phase in counts if count)
    return variables | {
        "CORRAL_PHASE": next(phase for phase in _WORST_FIRST if any(one.phase is phase for one in elements)).value,
        "CORRAL_EXIT_CODE": str(max(codes)) if codes else "",
        "CORRAL_REASON": printable(reason)[:MOST_REASON_CHARACTERS],
    }


def _answers(view: View, node: str) -> bool:
    return view.unanswering(node) is None


def _settle(done: "Future[None]") -> None:
    try:
        done.result()
    except CorralError as error:
        # The notification is still due, and the node knows that it has it.
        log.warning("a notification that was sent is not recorded yet: %s", error)
