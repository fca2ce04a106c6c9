"""Turns pods of others into jobs: changes of pods go to the ledger, and changes of jobs go to their pods."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from corral.core.model.errors import CorralError, Refused
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.ports.pod_jobs import PodJobs
from corral.engines.kubernetes.binding.bound_mark import BoundMarks
from corral.engines.kubernetes.binding.gangs import Gangs, jobset_size, refuse_different
from corral.engines.kubernetes.binding.notices import NOT_QUEUED, ROUND_S, UNSCHEDULABLE, Notices
from corral.engines.kubernetes.binding.pod_ask import PodAsk
from corral.engines.kubernetes.binding.pod_submission import Users, submission_of, user_of
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers
from corral.engines.kubernetes.binding.removing import remove_unless_taken
from corral.engines.kubernetes.binding.serving_lease import ServingLease
from corral.engines.kubernetes.binding.volumes import claim_refusal, volume_refusal
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import NoSuchObject
from corral.engines.kubernetes.cluster.resource import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, ResourceType
from corral.engines.kubernetes.cluster.watch_state import Change

log = logging.getLogger(__name__)

JOBSETS = ResourceType("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")

LOOK_S = 1.0
TRY_AGAIN_S = 60.0
IMAGE_S = 5.0
"""A pod waits at most this long for what its image says it needs. Later it is admitted unchecked in that."""
DELETING_S = 5.0
"""A round deletes pods for at most this long. The remaining pods wait while the API server is slow, so that changes are
still read.
"""

ENDED_LOOKED_AT = 10_000
"""The number of ended jobs that are checked at start: the deletion of their pods may not have been requested yet."""


class Binder:
    """Follows the pods of `pods` in a thread of its own. Failed requests to the API server are repeated.

    A pod without an entry in the map of users belongs to the user named like its namespace. Without the `lease` the
    binder makes no job of a pod, deletes no pod and writes no notice on a pod: another server does.
    """

    def __init__(
        self,
        cluster: Cluster,
        pods: Cache[PodOfOthers],
        jobs: PodJobs,
        *,
        users: Users,
        marks: BoundMarks,
        lease: ServingLease,
    ) -> None:
        self._cluster = cluster
        self._pods = pods
        self._jobs = jobs
        self._users = users
        self._marks = marks
        self._lease = lease
        self._notices = Notices(cluster, marks.tag)
        self._gangs = Gangs()
        self._job_of: dict[PodRef, str] = {}
        self._pods_of: dict[str, tuple[PodRef, ...]] = {}
        self._refusals: dict[PodRef, str] = {}
        self._reading: dict[PodRef, float] = {}
        """Pods whose images are being read, and when they are admitted all the same."""
        self._unwanted: dict[PodRef, None] = {}
        """Pods that are still to be deleted."""
        self._news: queue.SimpleQueue[Change[PodOfOthers] | str | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod-binder", daemon=True)

    def start(self) -> None:
        """Start the thread. The cache of pods must be complete."""
        for job in self._jobs.live():
            self._note(job.id, job.spec.pods)
        for job in self._jobs.ended(ENDED_LOOKED_AT):
            if any(self._found(ref) is not None and ref not in self._job_of for ref in job.spec.pods):
                if job.started_at is not None:
                    self._marks.note_bound_before(job.spec.pods)
                self._note(job.id, job.spec.pods)
        self._jobs.follow(self._news.put)
        self._unfollow = self._pods.subscribe(self._listen)
        for job_id in self._pods_of:
            # The job's pods may have been deleted, or the job may have ended, while no server ran.
            self._news.put(job_id)
        self._thread.start()

    def close(self) -> None:
        """Stop. Pods wait until the next server reads them."""
        self._closing.set()
        self._news.put(None)
        if self._thread.is_alive():
            self._unfollow()
            self._thread.join(timeout=10)

    def _listen(self, changes: Sequence[Change[PodOfOthers]]) -> None:
        for one in changes:
            self._news.put(one)

    def _run(self) -> None:
        since_retry_s, serves = 0.0, True
        while not self._closing.is_set():
            news, served = self._drained(), serves
            serves = self._lease.held
            if serves:
                came = self._pods.values() if not served else [one.new for one in news if isinstance(one, Change)]
                self._guarded(partial(self._admit, [pod for pod in came if pod is not None]), "pods that have come")
            for one in news:
                self._guarded(partial(self._hear, one), "a change")
            if not serves:
                continue
            for ref in tuple(self._reading):
                if (pod := self._found(ref)) is not None:
                    self._guarded(partial(self._admit, [pod]), f"pod {ref}")
            self._delete_some()
            self._tell_some()
            since_retry_s += LOOK_S
            if since_retry_s >= TRY_AGAIN_S:
                since_retry_s = 0.0
                for pod in self._pods.values():
                    if pod.ref in self._refusals:
                        self._guarded(partial(self._admit, [pod]), f"pod {pod.ref}")

    def _drained(self) -> list[Change[PodOfOthers] | str]:
        """Wait at most LOOK_S for a change. Return all changes that have come by then. They are recorded together."""
        found: list[Change[PodOfOthers] | str] = []
        try:
            one = self._news.get(timeout=LOOK_S)
            while one is not None:
                found.append(one)
                one = self._news.get_nowait()
        except queue.Empty:
            pass
        return found

    def _guarded(self, act: Callable[[], None], what: str) -> None:
        try:
            act()
        except CorralError as error:
            log.warning("binding of pods: %s is left for later: %s", what, error)

    # From pods to jobs

    def _hear(self, one: Change[PodOfOthers] | str) -> None:
        if isinstance(one, str):
            self._job_changed(one)
            return
        old, new = one
        if old is not None and (new is None or new.ref != old.ref):
            self._pod_left(old.ref, done=old.facts.ended)
            self._job_of.pop(old.ref, None)
        if new is not None:
            was_done = old is not None and old.ref == new.ref and old.facts.ended
            self._pod_changed(new, done=was_done or new.ended_by_itself)

    def _pod_changed(self, pod: PodOfOthers, *, done: bool) -> None:
        ref, job_id = pod.ref, self._job_of.get(pod.ref)
        if pod.facts.deleting_at_s is not None:
            self._pod_left(ref, done=done)
        elif pod.facts.node is not None and job_id is not None:
            self._notices.bound(ref, pod.facts.node)
            job = self._jobs.find(job_id)
            if job is not None and job.phase is Phase.PENDING and not pod.facts.ended:
                self._jobs.cancel(job_id, f"its pod {ref} was bound to {pod.facts.node} by another scheduler")
        elif pod.facts.node is not None or pod.facts.ended:
            self._forget(ref)

    def _pod_left(self, ref: PodRef, *, done: bool) -> None:
        """Handle the deletion of a pod: cancel its job. A pod that was `done` before cancels no job: its job ends as
        the pod ended.
        """
        job_id = self._job_of.get(ref)
        if job_id is not None and not done:
            self._jobs.cancel(job_id, f"its pod {ref} was deleted")
        self._forget(ref)

    def _forget(self, ref: PodRef) -> None:
        gang = self._gangs.drop(ref)
        self._notices.end(ref)
        self._refusals.pop(ref, None)
        self._reading.pop(ref, None)
        if gang is not None:
            self._refuse(self._gangs.lacking(gang))

    def _refuse(self, why: Mapping[PodRef, str]) -> None:
        """Record why these pods do not become jobs for now. Schedule a notice for each pod whose reason is new."""
        for ref, text in why.items():
            if self._refusals.get(ref) != text:
                self._refusals[ref] = text
                self._notices.soon(ref)

    def _admit(self, pods: Sequence[PodOfOthers]) -> None:
        """Submit jobs for those of these pods that wait to be bound and have no job yet."""
        submitted: list[tuple[tuple[PodRef, ...], Future[str]]] = []
        for pod in pods:
            if not pod.waits or pod.ref in self._job_of or self._found(pod.ref) is None:
                continue
            self._notices.begin(pod.ref)
            try:
                if not self._image_known(pod):
                    continue
                members = self._whole(pod)
                if members is not None:
                    refs = tuple(one.pod for one in members)
                    submitted.append((refs, self._submit(members)))
                    self._job_of.update(dict.fromkeys(refs, ""))
            except CorralError as error:
                self._refusals[pod.ref] = str(error)
        for refs, future in submitted:
            try:
                self._note(future.result(), refs)
            except CorralError as error:
                for ref in refs:
                    del self._job_of[ref]
                    self._refusals[ref] = str(error)

    def _image_known(self, pod: PodOfOthers) -> bool:
        """Return whether the pod can be checked; until IMAGE_S after it came its image may still be read."""
        if pod.ask is None or pod.ask.program is None or not pod.ask.request.devices:
            return True
        now_s = time.monotonic()
        until_s = self._reading.setdefault(pod.ref, now_s + IMAGE_S)
        if self._jobs.image_known(pod.ask.program, self._user_of(pod.ask)) or now_s >= until_s:
            del self._reading[pod.ref]
            return True
        return False

    def _whole(self, pod: PodOfOthers) -> tuple[PodAsk, ...] | None:
        """Return all pods of the gang of this pod, or None while some are missing. Raises Refused."""
        if pod.ask is None:
            raise Refused(pod.refusal or "Corral cannot serve it")
        self._check_claims(pod.ask)
        gang = pod.ask.gang
        if gang is None:
            return (pod.ask,)
        size = gang.size if gang.size is not None else self._jobset_size(gang.namespace, gang.name)
        members = self._gangs.add(pod.ask, size)
        if members is None:
            self._refuse(self._gangs.lacking((gang.namespace, gang.name)))
            return None
        try:
            refuse_different(members, self._user_of)
        except Refused as refused:
            self._refuse(dict.fromkeys((one.pod for one in members), str(refused)))
            raise
        return members

    def _jobset_size(self, namespace: str, name: str) -> int:
        size = jobset_size(self._cluster.get(JOBSETS, name, namespace))
        if size is None:
            raise Refused(f"how many pods JobSet {name} has cannot be read; say it by corral.dev/gang and gang-size")
        return size

    def _check_claims(self, ask: PodAsk) -> None:
        for name in ask.claims:
            try:
                claim = self._cluster.get(PERSISTENT_VOLUME_CLAIMS, name, ask.pod.namespace)
            except NoSuchObject:
                raise Refused(f"volumes: there is no claim {name:.80} in {ask.pod.namespace}") from None
            refusal = claim_refusal(claim)
            if refusal is None:
                refusal = volume_refusal(self._cluster.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"]))
            if refusal is not None:
                raise Refused(refusal, field="volumes")

    def _submit(self, members: Sequence[PodAsk]) -> "Future[str]":
        refs = tuple(one.pod for one in members)
        return self._jobs.submit(submission_of(members), refs, self._user_of(members[0]), members[0].program)

    def _user_of(self, ask: PodAsk) -> str:
        return user_of(ask, self._users)

    def _note(self, job_id: str, refs: tuple[PodRef, ...]) -> None:
        self._pods_of[job_id] = refs
        for ref in refs:
            self._job_of[ref] = job_id
            if self._refusals.pop(ref, None) is not None:
                self._notices.soon(ref)

    # From jobs to pods

    def _job_changed(self, job_id: str) -> None:
        refs = self._pods_of.get(job_id)
        job = None if refs is None else self._jobs.find(job_id)
        if refs is None or job is None:
            return
        if job.phase is Phase.PENDING:
            gone = next((ref for ref in refs if (pod := self._found(ref)) is None or pod.gone), None)
            if gone is not None:
                self._jobs.cancel(job_id, f"its pod {gone} was deleted")
        elif job.phase.terminal:
            self._job_ended(job, refs)

    def _job_ended(self, job: Job, refs: tuple[PodRef, ...]) -> None:
        """Remove the pods of a job that was cancelled or only partly bound. Pods that another scheduler bound stay."""
        del self._pods_of[job.id]
        for ref in refs:
            self._notices.end(ref)
            pod = self._found(ref)
            if pod is None:
                self._job_of.pop(ref, None)
            elif not pod.gone and (pod.facts.node is None or job.phase is Phase.CANCELLED):
                # The deletion checks whether another scheduler has bound the pod.
                self._unwanted[ref] = None

    def _delete_some(self) -> None:
        """Delete unwanted pods. Pods that cannot be deleted now are tried again in the next round."""
        until_s = time.monotonic() + DELETING_S
        for ref in tuple(self._unwanted):
            # A pod that cannot be deleted goes to the end of the list, so that it does not block the others.
            self._unwanted[ref] = self._unwanted.pop(ref)
            self._guarded(partial(self._delete, ref), f"the deletion of pod {ref}")
            if time.monotonic() >= until_s:
                break

    def _delete(self, ref: PodRef) -> None:
        with self._lease.acting() as left_s:
            remove_unless_taken(self._cluster, ref, self._marks, min(DELETING_S, left_s))
        del self._unwanted[ref]

    def _tell_some(self) -> None:
        until_s = time.monotonic() + ROUND_S
        for ref in self._notices.due():
            self._guarded(partial(self._tell, ref), f"what pod {ref} is told")
            if time.monotonic() >= until_s:
                break

    def _tell(self, ref: PodRef) -> None:
        job_id = self._job_of.get(ref)
        self._notices.later(ref)
        if self._notices.tell_bound(ref):
            return
        text = self._jobs.why(job_id) if job_id else self._refusals.get(ref)
        if text is None:
            self._notices.end(ref)
        else:
            self._notices.tell(ref, text, UNSCHEDULABLE if job_id else NOT_QUEUED)

    def _found(self, ref: PodRef) -> PodOfOthers | None:
        pod = self._pods.get(ref.name, ref.namespace)
        return pod if pod is not None and pod.ref == ref else None
