"""Pods that kube-scheduler places: the jobs that they would be, and their binding, each as a job of its own."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from corral.core.model.errors import BackendFailed, Conflict, CorralError, NotFound, Refused
from corral.core.model.jobs.job import JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.jobs.submission import Submission
from corral.core.ports.pod_jobs import PodJobs
from corral.engines.kubernetes.binding.pod_ask import PodAsk, read_ask
from corral.engines.kubernetes.binding.pod_binding import PodBinding
from corral.engines.kubernetes.binding.pod_submission import Users, submission_of, user_of
from corral.engines.kubernetes.binding.pods_of_others import read
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import NoSuchObject
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.inventory.occupants import Occupant
from corral.engines.kubernetes.shares.pod_shares import OWN_NAMES, PodShares
from corral.untrusted import Unread, guarded

ANSWER_S = 2.0
"""The API server must answer within this time which pod is to be bound."""


@dataclass(slots=True)
class Binding:
    """A binding that was begun: the job of the pod, and its outcome, None or an error."""

    pod: PodRef
    node: str
    job_id: str
    done: Future[None] = field(default_factory=Future)


class PlacedPods:
    """The pods of other schedulers, for the extender of kube-scheduler. Safe from any thread.

    `users` gives the user of each pod, and `names` reads parts of GPUs. `occupants` are the pods on nodes.
    """

    def __init__(
        self,
        cluster: Cluster,
        occupants: Cache[Occupant],
        binding: PodBinding,
        users: Users,
        names: PodShares = OWN_NAMES,
    ) -> None:
        self._cluster = cluster
        self._binding = binding
        self._users = users
        self._names = names
        self._jobs: PodJobs | None = None
        self._lock = threading.Lock()
        self._begun: dict[PodRef, Binding] = {}
        self._occupants: dict[str, Occupant] = {}
        self._came: dict[PodRef, None] = {}
        occupants.subscribe(self._hear)
        binding.runtime.on_bound = self._bound

    def attend(self, jobs: PodJobs) -> None:
        """Set the jobs that stand for pods."""
        self._jobs = jobs
        jobs.follow(self._job_changed)

    def spec(self, item: Mapping[str, Any]) -> tuple[PodRef, JobSpec]:
        """Return what the job of a Pod object would be. Raises Refused and Forbidden, if it could be none."""
        ask, submission, user = self._read(item)
        return ask.pod, self._attended().spec(submission, user, ask.program)

    def asks_for_gpus(self, item: Mapping[str, Any]) -> bool:
        """Return whether a Pod object asks for GPUs in a way that Corral can serve."""
        try:
            _, submission, _ = self._read(item)
        except Refused:
            return False
        return submission.request.devices > 0

    def occupant(self, uid: str) -> Occupant | None:
        """Return the pod on a node with this UID; None if there is none."""
        with self._lock:
            return self._occupants.get(uid)

    def came(self) -> Iterator[PodRef]:
        """Return the pods that were seen on their nodes since the last call."""
        with self._lock:
            came, self._came = self._came, {}
        return iter(came)

    def begin(self, pod: PodRef, node: str) -> Binding:
        """Queue the pod as a job that runs on this node alone. Its binding is done once the pod is bound there.

        Raises CorralError, such as Refused for a pod that can be no job.
        """
        if (why_not := self._binding.why_not) is not None:
            raise Conflict(why_not)
        with self._lock:
            begun = self._begun.get(pod)
        if begun is not None:
            if begun.node != node:
                raise Conflict(f"pod {pod} is being bound to {begun.node}")
            return begun
        item = self._present(pod)
        ask, submission, user = self._read(item)
        submission = replace(submission, request=replace(submission.request, node=node))
        self._binding.runtime.announced.announce(read(item, self._names))
        begun = Binding(pod, node, "")
        with self._lock:
            if pod in self._begun:
                raise Conflict(f"pod {pod} is being bound by another call")
            self._begun[pod] = begun
        try:
            begun.job_id = self._attended().submit(submission, (pod,), user, ask.program).result()
        except BaseException:
            self._forget(begun)
            raise
        # Its phase may have changed before its id was known here.
        self._job_changed(begun.job_id)
        return begun

    def give_up(self, begun: Binding) -> str:
        """Withdraw a binding that is not done in time, if its job still waits. Return why it is not done."""
        jobs = self._attended()
        try:
            why = jobs.why(begun.job_id)
        except NotFound:
            why = f"the job of pod {begun.pod} is gone"
        if jobs.withdraw(begun.job_id, f"pod {begun.pod} could not be bound to {begun.node} at once"):
            self._forget(begun)
            return why
        return f"pod {begun.pod} is not bound to {begun.node} yet; its job {begun.job_id} is starting there"

    def _attended(self) -> PodJobs:
        assert self._jobs is not None, "the engine is told of the jobs before the server answers"
        return self._jobs

    def _read(self, item: Mapping[str, Any]) -> tuple[PodAsk, Submission, str]:
        ask = guarded("a pod that kube-scheduler places", lambda: _refusal_or(item, self._names))
        if isinstance(ask, Unread):
            raise Refused(f"what the pod asks for {ask}")
        if isinstance(ask, Refused):
            raise ask
        # kube-scheduler places one pod at a time, so no pod waits here for the others of its gang.
        ask = replace(ask, gang=None)
        return ask, submission_of((ask,)), user_of(ask, self._users)

    def _present(self, pod: PodRef) -> Mapping[str, Any]:
        """Return the Pod object. Raises NotFound or Conflict for a pod that cannot be bound any more."""
        try:
            item = self._cluster.get(PODS, pod.name, pod.namespace, timeout_s=ANSWER_S)
        except NoSuchObject:
            raise NotFound(f"pod {pod} was deleted") from None
        found = read(item)
        if found.ref != pod or found.gone:
            raise NotFound(f"pod {pod} was deleted")
        if found.facts.node is not None:
            raise Conflict(f"pod {pod} is bound to {found.facts.node} already")
        return item

    def _bound(self, pod: PodRef) -> None:
        with self._lock:
            begun = self._begun.pop(pod, None)
            self._came[pod] = None
        if begun is not None:
            _settle(begun, None)

    def _job_changed(self, job_id: str) -> None:
        with self._lock:
            begun = next((one for one in self._begun.values() if one.job_id == job_id), None)
        job = None if begun is None else self._attended().find(job_id)
        if begun is None or job is None or job.phase in (Phase.STARTING, Phase.RUNNING):
            return
        if job.phase.terminal:
            self._forget(begun)
            _settle(begun, BackendFailed(job.reason or f"the job of pod {begun.pod} has ended"))
        elif job.launches:
            _settle(begun, BackendFailed(job.reason or f"pod {begun.pod} could not be bound to {begun.node}"))

    def _forget(self, begun: Binding) -> None:
        self._binding.runtime.announced.drop(begun.pod)
        with self._lock:
            if self._begun.get(begun.pod) is begun:
                del self._begun[begun.pod]

    def _hear(self, changes: Sequence[Change[Occupant]]) -> None:
        with self._lock:
            for old, new in changes:
                if old is not None:
                    self._occupants.pop(old.uid, None)
                if new is not None:
                    self._occupants[new.uid] = new
                    if old is None:
                        self._came[PodRef(new.pod.namespace, new.pod.name, new.uid)] = None
            while len(self._came) > MOST_CAME:
                del self._came[next(iter(self._came))]


MOST_CAME = 10_000


def _refusal_or(item: Mapping[str, Any], names: PodShares) -> Any:
    try:
        return read_ask(item, names)
    except Refused as refused:
        return refused


def _settle(begun: Binding, error: CorralError | None) -> None:
    with suppress(InvalidStateError):
        if error is None:
            begun.done.set_result(None)
        else:
            begun.done.set_exception(error)
