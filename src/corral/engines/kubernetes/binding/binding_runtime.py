"""Starts jobs that stand for pods of others: the launch of a member binds its pod to the chosen node.

A binding cannot be undone. A pod that must not run is deleted instead; its creator may make another.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from corral.core.model.errors import BackendFailed, NodeLacks, NodeUnreachable, Refused
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport, checked_launch_id, job_of, member_of
from corral.core.model.runs.launch import launch_id as launch_of_member
from corral.core.ports.node import Rendezvous
from corral.core.ports.pod_jobs import PodJobs
from corral.core.ports.runtime import Execution, InnerCommand
from corral.engines.kubernetes.binding.announced_pods import AnnouncedPods
from corral.engines.kubernetes.binding.bound_mark import BoundMarks, PodOf
from corral.engines.kubernetes.binding.logs_of_others import LogsOfOthers
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers, read
from corral.engines.kubernetes.binding.removing import remove_unless_taken
from corral.engines.kubernetes.binding.serving_lease import ServingLease
from corral.engines.kubernetes.binding.share_notes import Placed, as_counted, share_notes
from corral.engines.kubernetes.binding.share_turns import ShareTurns
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.client import TIMEOUT_S, Cluster
from corral.engines.kubernetes.cluster.errors import (
    MissingRight,
    NoSuchObject,
    ObjectChanged,
    Rejected,
    asked_again,
)
from corral.engines.kubernetes.cluster.pod_facts import ContainerFacts, PodFacts
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.cluster.watch_state import Change

MOST_ENDED = 1000


@dataclass(frozen=True, slots=True)
class BoundLaunch:
    """A launch whose pod was bound, and its node."""

    launch_id: str
    node: str


class BindingRuntime:
    """Implements `corral.engines.kubernetes.engine.runtimes.ClusterRuntime`.

    `pods` are the pods that Corral binds, `pod_of` finds the pod of a launch, `marks` are this server's. Nothing is
    bound or deleted without the `lease`.

    The state of a launch is on its pod: a server that starts anew finds it there.
    """

    def __init__(
        self,
        cluster: Cluster,
        pods: Cache[PodOfOthers],
        pod_of: PodOf,
        *,
        marks: BoundMarks,
        lease: ServingLease,
        on_event: Callable[[str], None] = lambda launch_id: None,
        on_deletion: Callable[[str, str], None] = lambda job_id, why: None,
        placed: Placed = as_counted,
    ) -> None:
        """Subscribe to the pods.

        `on_event(launch_id)` is called in the watch's thread when the report of a launch may have changed.
        `on_deletion(job_id, why)` is called before a launch is reported as ended because its pod was deleted: deleting
        a pod cancels its job. `placed` returns the devices of a launch as the software of its node knows them.
        """
        self.on_event = on_event
        self._placed = placed
        self.announced = AnnouncedPods()
        self.on_bound: Callable[[PodRef], None] = lambda ref: None
        """Called once a pod was bound."""
        self._on_deletion = on_deletion
        self._cluster = cluster
        self._pods = pods
        self._turns = ShareTurns(pods)
        self._pod_of = pod_of
        self._marks = marks
        self._lease = lease
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        """Launches whose pods this process has bound."""
        self._lost: dict[str, LaunchReport] = {}
        self._ended: dict[str, PodOfOthers] = {}
        """The last state of each pod that just ended, by launch; the newest only. The watch may lag behind or may have
        dropped it.
        """
        self.logs = LogsOfOthers(cluster, self.pod)
        pods.subscribe(self._hear)

    def launch(self, launch: Launch) -> None:
        """Bind the pod of the member. Raises BackendFailed if it, or another of its gang, cannot be bound.

        Raises NodeLacks if another server binds pods.
        """
        for ref in launch.job.spec.pods:
            self._refuse_unbindable(ref)
        ref = launch.job.spec.pods[launch.rank]
        with self._given_by_plugin(launch, ref) as notes:
            mark = {**notes, **self._marks.of(launch.id)}
            with self._lease.acting() as left_s, asked_again(), self._naming(launch, ref):
                timeout_s = min(TIMEOUT_S, left_s)
                self._cluster.bind(ref.name, ref.namespace, ref.uid, launch.node, annotations=mark, timeout_s=timeout_s)
        with self._lock:
            self._asked.add(launch.id)
        self.on_bound(ref)

    def stop(self, launch_id: str) -> None:
        """Delete the pod of the launch with its own grace period, unless another scheduler has bound it."""
        ref = self._pod_of(launch_id)
        pod = self._found(ref)
        if ref is None or (pod is not None and pod.facts.deleting_at_s is not None):
            return
        try:
            with self._lease.acting() as left_s, asked_again():
                remove_unless_taken(self._cluster, ref, self._marks, min(TIMEOUT_S, left_s))
        except NodeLacks as error:
            raise NodeUnreachable(f"its pod {ref} is not deleted yet: {error}") from None

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Do nothing: the kubelet enforces the pod's activeDeadlineSeconds."""

    def report(self, launch_id: str) -> LaunchReport:
        """Return the state of the launch, read from its pod."""
        with self._lock:
            lost, asked = self._lost.get(launch_id), launch_id in self._asked
        if lost is not None:
            return lost
        if not self._pods.synced:
            raise NodeUnreachable("the pods of the cluster are not known yet")
        ref = self._pod_of(launch_id)
        if ref is None:
            return LaunchReport(launch_id, LaunchPhase.UNKNOWN)
        pod = self._ended_as(launch_id, ref) or self._found(ref)
        if pod is None:
            # The same watch reported the pod before the job was made, so the pod existed. No later pod has its UID.
            why = f"its pod {ref} was deleted"
            self._on_deletion(job_of(launch_id), why)
            return LaunchReport(launch_id, LaunchPhase.DEAD, reason=why)
        if pod.facts.node is not None and self._marks.launch_of(pod) != launch_id:
            return LaunchReport(launch_id, LaunchPhase.DECLARED_LOST, reason=_taken(pod.facts.node))
        return _report(launch_id, pod, asked=asked)

    def look(self, launch_id: str) -> None:
        """Update the report as `corral.engines.kubernetes.engine.runtimes.ClusterRuntime.look` does."""
        ref = self._pod_of(launch_id)
        if ref is None:
            return
        pod = self._asked_for(ref)
        if pod is not None and pod.ended_by_itself:
            self._keep_end(launch_id, pod)

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        """Return whether the launch never ran: its pod is gone, unbound, or bound by another scheduler."""
        ref = self._pod_of(launch_id)
        pod = None if ref is None else self._asked_for(ref)
        if pod is not None and self._marks.launch_of(pod) == launch_id:
            return False
        node = None if pod is None else pod.facts.node
        why = f"its pod {ref} {'was deleted' if pod is None else 'is not bound'}" if node is None else _taken(node)
        dead = ran and pod is None
        phase = LaunchPhase.DEAD if dead else LaunchPhase.DECLARED_LOST
        with self._lock:
            self._lost[launch_id] = LaunchReport(launch_id, phase, reason=why)
        return not dead

    def launches(self) -> tuple[str, ...]:
        """Return the launches for which this server bound pods, by the marks on the pods and the ledger."""
        found = (self._marks.launch_of(pod) for pod in self._pods.values())
        return tuple(launch for launch in found if launch is not None)

    def running_by_their_marks(self) -> tuple[PodRef, ...]:
        """Return the running pods with this server's mark. This needs no ledger, but anybody can write a mark."""
        return tuple(pod.ref for pod in self._pods.values() if not pod.facts.ended and self._marks.named(pod))

    def on_record(self) -> tuple[BoundLaunch, ...]:
        """Return the launches with their nodes. Return none without the lease, because launches unknown to the ledger
        would be ended.
        """
        if not self._lease.held:
            return ()
        found = ((one, self.pod(one)) for one in self.launches())
        return tuple(BoundLaunch(one, pod.facts.node or "") for one, pod in found if pod is not None)

    def pod(self, launch_id: str) -> PodOfOthers | None:
        """Return the pod of a launch, None if the watch does not know it."""
        return self._found(self._pod_of(launch_id))

    def forget(self, launch_id: str) -> None:
        with self._lock:
            self._asked.discard(launch_id)
            self._lost.pop(launch_id, None)
            self._ended.pop(launch_id, None)

    def signal(self, launch_id: str, word: str) -> None:
        """Raise Refused: a pod gets no signal but the SIGTERM of its deletion."""
        raise Refused(f"{word!r:.20} cannot be sent to a pod that others made; corral cancel deletes it", field="name")

    def rendezvous(self, launch_id: str) -> Rendezvous:
        """Return an empty rendezvous: the creator of the pods has configured where they meet."""
        return Rendezvous("", 0, 0, "")

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        """Raise Refused with the command by which the user can run `command` in a pod."""
        raise _refused_command(*self.pod_name(launch_id))

    def pod_name(self, launch_id: str) -> tuple[str, str]:
        """Return namespace and name of the launch's pod; empty strings if the ledger has none."""
        ref = self._pod_of(launch_id)
        return ("", "") if ref is None else (ref.namespace, ref.name)

    def close(self) -> None:
        """Do nothing: the runtime holds nothing open, and the pods run on."""

    def _hear(self, changes: Sequence[Change[PodOfOthers]]) -> None:
        for old, new in changes:
            told = new or old
            launch_id = None if told is None else self._marks.named(told)
            if told is not None and launch_id is not None:
                self.announced.drop(told.ref)
                if old is not None and not old.facts.ended and told.ended_by_itself:
                    self._keep_end(launch_id, told)
                self.on_event(launch_id)

    def _keep_end(self, launch_id: str, pod: PodOfOthers) -> None:
        """Store the end of the pod, because the pod may be removed before anyone asks for the report."""
        with self._lock:
            self._ended[launch_id] = pod
            while len(self._ended) > MOST_ENDED:
                del self._ended[next(iter(self._ended))]

    def _ended_as(self, launch_id: str, ref: PodRef) -> PodOfOthers | None:
        with self._lock:
            pod = self._ended.get(launch_id)
        return pod if pod is not None and pod.ref == ref else None

    def _found(self, ref: PodRef | None) -> PodOfOthers | None:
        if ref is None:
            return None
        pod = self._pods.get(ref.name, ref.namespace)
        return pod if pod is not None and pod.ref == ref else self.announced.get(ref)

    def _asked_for(self, ref: PodRef) -> PodOfOthers | None:
        """Return the current pod from the API server, or None if it is gone."""
        with asked_again(), suppress(NoSuchObject):
            pod = read(self._cluster.get(PODS, ref.name, ref.namespace))
            return pod if pod.ref == ref else None
        return None

    def _refuse_unbindable(self, ref: PodRef) -> None:
        """Raise BackendFailed if the pod is gone or bound by others. It is checked for all pods of a gang before the
        first is bound.
        """
        pod = self._found(ref)
        if pod is None or pod.gone:
            raise BackendFailed(f"its pod {ref} was deleted")
        if pod.facts.node is not None and self._marks.launch_of(pod) is None:
            raise BackendFailed(f"its pod {ref}: {_taken(pod.facts.node)}")

    @contextmanager
    def _given_by_plugin(self, launch: Launch, ref: PodRef) -> Iterator[Mapping[str, str]]:
        """Yield the annotations by which the plugin on the node learns of the devices, once it can serve the pod."""
        pod = self._found(ref)
        if pod is None or not launch.uses:
            yield {}
            return
        placed = self._placed(launch)
        turn = nullcontext() if placed.awaits is None else self._turns.turn(launch.node, ref, placed.awaits)
        with turn:
            yield share_notes(launch, pod, placed, time.time())

    def _remove_if_bound_late(self, launch: Launch, ref: PodRef) -> None:
        """Delete the pod, which is on another node, if the binding of an earlier launch put it there."""
        pod = self._asked_for(ref)
        if pod is not None and self._marks.launch_of(pod) == launch.id:
            self.stop(launch.id)
            raise BackendFailed(
                f"its pod {ref} was bound to {pod.facts.node} by an earlier start that had been given up; the pod is "
                "deleted, and its owner may make another"
            )

    @contextmanager
    def _naming(self, launch: Launch, ref: PodRef) -> Iterator[None]:
        try:
            yield
        except NoSuchObject:
            raise BackendFailed(f"its pod {ref} was deleted") from None
        except ObjectChanged as error:
            self._remove_if_bound_late(launch, ref)
            raise BackendFailed(f"its pod {ref} cannot be bound: {error}") from None
        except (Rejected, MissingRight) as error:
            # A policy or a missing right of the cluster: no other scheduler binds the pod, so it waits until that
            # changes.
            raise NodeLacks(f"its pod {ref} cannot be bound: {error}") from None


def pod_of_launch(jobs: PodJobs, launch_id: str) -> PodRef | None:
    """Return the pod that a launch has to bind, or None if the ledger has none. `launch_id` is untrusted text."""
    try:
        allocation_id, rank = member_of(checked_launch_id(launch_id))
    except Refused:
        return None
    job = jobs.find(job_of(allocation_id))
    return job.spec.pods[rank] if job is not None and rank < len(job.spec.pods) else None


def present_launch(jobs: PodJobs, launch_id: str) -> str:
    """Return the present launch of the member that a launch was of; the launch itself if there is none."""
    allocation_id, rank = member_of(launch_id)
    job = jobs.find(job_of(allocation_id))
    return launch_id if job is None or job.allocation_id is None else launch_of_member(job.allocation_id, rank)


def _taken(node: str) -> str:
    return f"another scheduler has bound it to {node}"


def _report(launch_id: str, pod: PodOfOthers, *, asked: bool) -> LaunchReport:
    facts = pod.facts
    if facts.node is None:
        return LaunchReport(launch_id, LaunchPhase.CLAIMED if asked else LaunchPhase.UNKNOWN)
    if not facts.ended:
        if facts.phase == "Running":
            return LaunchReport(launch_id, LaunchPhase.RUNNING, started_at=facts.started_at_s)
        return LaunchReport(launch_id, LaunchPhase.CLAIMED, reason=_why_it_has_not_begun(facts))
    return _ended(launch_id, facts)


def _why_it_has_not_begun(facts: PodFacts) -> str:
    for one in facts.containers:
        if one.init and one.state == "running":
            return f"its init container {one.name} runs"
        if one.state == "waiting" and one.reason not in (None, "PodInitializing"):
            words = f"{one.reason}: {one.message}" if one.message else one.reason
            return _printable(f"its container {one.name} is not made yet ({words})")
    return f"node {facts.node} has not taken its pod yet"


def _ended(launch_id: str, facts: PodFacts) -> LaunchReport:
    ended = [one for one in facts.containers if one.exit_code is not None]
    failed = next((one for one in ended if one.exit_code), None)
    times = [one.finished_at_s for one in ended if one.finished_at_s is not None]
    ending = Phase.SUCCEEDED if facts.phase == "Succeeded" else Phase.FAILED
    if facts.reason == "DeadlineExceeded":
        ending = Phase.TIMED_OUT
    return LaunchReport(
        launch_id,
        LaunchPhase.EXITED,
        started_at=facts.started_at_s,
        ended_at=max(times, default=None),
        exit_code=0 if ending is Phase.SUCCEEDED else None if failed is None else failed.exit_code,
        signal=None if failed is None else failed.signal,
        ending=ending,
        reason=None if ending is Phase.SUCCEEDED else _why_it_failed(facts, failed),
    )


def _why_it_failed(facts: PodFacts, failed: ContainerFacts | None) -> str | None:
    words: Sequence[str | None] = (facts.reason, facts.message)
    if facts.reason is None and failed is not None and failed.reason not in (None, "Error"):
        words = (f"container {failed.name}: {failed.reason}", failed.message)
    return _printable(": ".join(word for word in words if word)) or None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:500]


def _refused_command(namespace: str, pod: str) -> Refused:
    """Return the error that says that Corral runs no command inside a pod of others."""
    return Refused(
        "Corral runs no command inside a pod that it has only bound to a node; use kubectl for that: "
        f"kubectl exec -n {namespace} {pod} -- COMMAND"
    )
