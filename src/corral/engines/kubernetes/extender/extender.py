"""The verbs of an extender of kube-scheduler, over a planner that follows the server's ledger."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from corral.clock import Clock
from corral.core.model.errors import CorralError, Refused
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.placing.allocation import Member, Placement
from corral.core.model.units import format_duration
from corral.core.model.view import View
from corral.core.scheduling.placing.opening import Opening
from corral.engines.kubernetes.extender import call_forms
from corral.engines.kubernetes.extender.call_forms import Filtered, NodesCall, Victims
from corral.engines.kubernetes.extender.followed_planner import FollowedPlanner
from corral.engines.kubernetes.extender.known_answers import Answer, KnownAnswers, NodeRefusal
from corral.engines.kubernetes.extender.pod_holds import PodHold, PodHolds
from corral.engines.kubernetes.inventory.occupants import Occupant, keep_occupant

MOST_SCORE = 10
UNKNOWN_NODE = NodeRefusal("Corral does not know this node yet", evicting_helps=False)


class AskedPods(Protocol):
    """The facts on pods that the extender needs."""

    def spec(self, item: Mapping[str, Any]) -> tuple[PodRef, JobSpec]:
        """Return what the job of a Pod object would be. Raises Refused and Forbidden, if it could be none."""
        ...

    def occupant(self, uid: str) -> Occupant | None:
        """Return the pod on a node with this UID; None if there is none."""
        ...

    def came(self) -> Iterator[PodRef]:
        """Return the pods that were seen on their nodes since the last call."""
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """A pod that is asked about, as the job that it would be, and what is open to it beside what is held for others."""

    pod: PodRef
    opening: Opening
    answers: Mapping[str, Answer]
    held: Mapping[str, Answer]
    """The answers for nodes on which something is held for other pods."""

    def answer(self, node: str) -> Answer:
        return self.held[node] if node in self.held else self.answers.get(node, UNKNOWN_NODE)


class Extender:
    """Answers the calls of kube-schedulers. Safe from any thread; one call is answered at a time.

    Every method takes the body of a call and returns that of the answer. Raises Refused for a body that is no call.
    """

    def __init__(self, planner: FollowedPlanner, pods: AskedPods, clock: Clock) -> None:
        self._planner = planner
        self._pods = pods
        self._clock = clock
        self._lock = threading.Lock()
        self._known = KnownAnswers()
        self._holds = PodHolds()

    def filter(self, body: bytes) -> bytes:
        """Say which of the nodes the pod may have, and why not the others. What it may have is held for a moment."""
        call = call_forms.read_nodes_call(body)
        return call_forms.filtered(call, self._filtered(call))

    def prioritize(self, body: bytes) -> bytes:
        """Score the nodes from 0 to 10. The one that the planner would choose has 10, and is held for the pod."""
        call = call_forms.read_nodes_call(body)
        try:
            pod, job = self._job(call.pod)
        except CorralError:
            return call_forms.prioritized((name, 0) for name in call.names)
        with self._lock:
            asked = self._asked(pod, job)
            fitting = [name for name in call.names if asked.answer(name) is None]
            scores = dict(zip(fitting, asked.opening.scores(fitting), strict=True))
            best = max(fitting, key=scores.__getitem__, default=None)
            self._hold(asked, best)
        scaled = dict(_scaled(scores))
        if best is not None:
            scaled[best] = MOST_SCORE
        return call_forms.prioritized((name, scaled.get(name, 0)) for name in call.names)

    def preempt(self, body: bytes) -> bytes:
        """Say on which of the nodes the pod would fit once its victims are gone. Raises Refused for a pod that is not
        known.
        """
        call = call_forms.read_preempt_call(body)
        try:
            pod, job = self._job(call.pod)
        except CorralError:
            return call_forms.preempted({})
        with self._lock:
            asked = self._asked(pod, job)
            view = self._planner.current().view
            remaining = {
                node: victims
                for node, victims in call.victims.items()
                if node in view.nodes and self._fits_without(asked.opening, view, node, victims)
            }
        return call_forms.preempted(remaining)

    def let_go(self, pod: PodRef) -> None:
        """Hold nothing for a pod any more."""
        with self._lock:
            self._holds.release(pod)

    def _filtered(self, call: NodesCall) -> Filtered:
        try:
            pod, job = self._job(call.pod)
        except CorralError as error:
            return Filtered((), {}, dict.fromkeys(call.names, str(error)))
        with self._lock:
            asked = self._asked(pod, job)
            barrier = asked.opening.barrier
            if barrier is not None:
                self._holds.release(pod)
                return Filtered((), {}, dict.fromkeys(call.names, barrier.detail))
            fitting: list[str] = []
            failed: dict[str, str] = {}
            unresolvable: dict[str, str] = {}
            for name in call.names:
                answer = asked.answer(name)
                if answer is None:
                    fitting.append(name)
                elif answer.evicting_helps:
                    failed[name] = answer.words
                else:
                    unresolvable[name] = answer.words
            self._hold(asked, self._best(asked, fitting))
        return Filtered(fitting, failed, unresolvable)

    def _job(self, item: Mapping[str, Any]) -> tuple[PodRef, Job]:
        pod, spec = self._pods.spec(item)
        return pod, Job("0", 0, spec, self._clock.now())

    def _asked(self, pod: PodRef, job: Job) -> _Asked:
        planner, now_s = self._planner.current(), self._clock.monotonic()
        for seen in self._pods.came():
            self._holds.seen(seen, now_s)
        opening = planner.opening(job, self._clock.now())
        answers = self._known.of(opening, planner.view)
        others = list(self._holds.others(pod, now_s))
        opening.take([one.member for one in others])
        held = {one.member.node: _beside(opening, answers, one, now_s) for one in others}
        return _Asked(pod, opening, answers, held)

    def _best(self, asked: _Asked, names: Sequence[str]) -> str | None:
        """The node that the planner would choose among these; among equals the first."""
        if len(names) < 2:
            return names[0] if names else None
        scores = asked.opening.scores(names)
        return names[max(range(len(names)), key=scores.__getitem__)]

    def _hold(self, asked: _Asked, node: str | None) -> None:
        placement = None if node is None else asked.opening.on(node)
        if isinstance(placement, Placement):
            self._holds.hold(asked.pod, placement.members[0], self._clock.monotonic())
        else:
            self._holds.release(asked.pod)

    def _fits_without(self, opening: Opening, view: View, node: str, victims: Victims) -> bool:
        of_jobs = _members_by_pod(view, node)
        members = [of_jobs[uid] for uid in victims.uids if uid in of_jobs]
        others = [self._victim(uid, victims) for uid in victims.uids if uid not in of_jobs]
        return opening.fits_without(
            node,
            members,
            holders=frozenset(str(one.pod) for one in others),
            cpu_milli=sum(one.requests.cpu_milli for one in others),
            memory_mib=sum(one.requests.memory_bytes for one in others) >> 20,
            disk_mib=sum(one.requests.ephemeral_storage_bytes for one in others) >> 20,
        )

    def _victim(self, uid: str, victims: Victims) -> Occupant:
        found = self._pods.occupant(uid) or keep_occupant(victims.pods.get(uid, {}))
        if found is None:
            raise Refused(f"no pod on a node has the UID {uid}, so nobody knows what its eviction would free")
        return found


def _beside(opening: Opening, answers: Mapping[str, Answer], hold: PodHold, now_s: float) -> Answer:
    """The answer for a node on which something is held for another pod."""
    node = hold.member.node
    before = answers.get(node, UNKNOWN_NODE)
    if before is not None or opening.misfit(node) is None:
        return before
    left = format_duration(max(1.0, hold.until_s - now_s))
    return NodeRefusal(f"what is free on the node is held for pod {hold.pod}, for {left} at most", evicting_helps=False)


def _members_by_pod(view: View, node: str) -> dict[str, Member]:
    """The members of jobs that stand for pods of others on a node, by the UIDs of the pods."""
    found: dict[str, Member] = {}
    for allocation_id in view.residents.get(node, ()):
        allocation = view.allocations[allocation_id]
        job = view.jobs.get(allocation.job_id)
        if job is not None:
            for pod, member in zip(job.spec.pods, allocation.placement.members, strict=False):
                if member.node == node:
                    found[pod.uid] = member
    return found


def _scaled(scores: Mapping[str, float]) -> Iterable[tuple[str, int]]:
    """Scores from 0 to one less than the most, in the order of what they were."""
    least, most = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    span = most - least or 1.0
    return ((name, int((MOST_SCORE - 1) * (score - least) / span)) for name, score in scores.items())
