"""Runs launches as pods. Their state is in the cluster, where the next server finds it (decision 68)."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from corral.clock import Clock
from corral.core.model.errors import BackendFailed, Conflict, NodeUnreachable, Refused
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport, Lineage, member_of
from corral.core.ports.node import Rendezvous
from corral.core.ports.runtime import Execution, InnerCommand, MainProcesses
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import (
    AlreadyExists,
    ClusterFailed,
    NoSuchObject,
    ObjectChanged,
    asked_again,
)
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import PODS, SERVICES
from corral.engines.kubernetes.pods.logs import PodLogs
from corral.engines.kubernetes.pods.manifest import CONTAINER, MASTER_PORT, Json, pod_of, service_of, tombstone_of
from corral.engines.kubernetes.pods.names import ENDING, FINALIZER, REASON, Names
from corral.engines.kubernetes.pods.own_pods import OwnPods
from corral.engines.kubernetes.pods.pod_execution import PodExecution
from corral.engines.kubernetes.pods.pod_report import report
from corral.engines.kubernetes.pods.site import PodSite
from corral.engines.kubernetes.pods.state import LaunchedPod
from corral.engines.kubernetes.pods.warnings import PodWarnings
from corral.engines.kubernetes.shares.placed_share import PlacedShare

LATE_REQUEST_S = 120.0
"""The time for which a name must stay taken. An API server gives up a request after 60 s by default."""

TOMBSTONE_S = 3600.0

LOG_PATIENCE_S = 60.0
"""A pod that has ended is kept for at most this long while its log cannot be read, as when its node is busy."""

LEAVING_S = 5.0
"""A round removes pods for at most this long, so that nodes without answers do not delay time limits of other pods."""

EXECUTE_S = 10.0
"""The time limit for the start of a command in a pod."""

FOLLOWED_S = 1.0
"""The deletion of a pod waits at most this long until its log is followed."""


@dataclass(slots=True)
class _Leaving:
    """A pod to be deleted at `due_s`. Until `log_until_s` the rest of its log may be read first (both monotonic
    seconds).
    """

    pod: LaunchedPod
    due_s: float
    log_until_s: float


class PodRuntime:
    """Implements `core.ports.runtime.Runtime`. Making a launch's pod claims the launch: its name exists only once.

    `on_event(launch_id)` is called when the report of a launch may have changed. Each call raises NodeUnreachable if
    the API server does not answer; the request may have been carried out then.
    """

    def __init__(
        self,
        cluster: Cluster,
        names: Names,
        site: PodSite,
        clock: Clock,
        on_event: Callable[[str], None],
        *,
        pods: ObjectWatch,
        logs: Path,
        namespace: str | None = None,
        kill_grace_s: float = 10.0,
        log_max_bytes: int = 100 << 20,
        placed: Callable[[Launch], PlacedShare] = lambda launch: PlacedShare(None, ()),
    ) -> None:
        """`pods` follows those of the namespace, or more; `logs` is the directory for the logs of jobs.

        `placed` returns the devices of a launch as the software of its node knows them.
        """
        self._placed = placed
        self.namespace = namespace or cluster.namespace
        self.names = names
        self._cluster = cluster
        self._site = site
        self._clock = clock
        self._kill_grace_s = kill_grace_s
        self.pods = OwnPods(pods, names, self.namespace, on_event)
        self.logs = PodLogs(cluster, self.pods, self.namespace, logs, clock.now, max_bytes=log_max_bytes)
        self.warnings = PodWarnings(cluster, self.namespace)
        self._limits: dict[str, float] = {}
        self._seen_at: dict[str, float] = {}
        """The time (monotonic seconds) at which this server first saw a pod run, by UID: its node's clock may
        be wrong.
        """
        self._ended: set[str] = set()
        """UIDs of pods that this server is ending. Writing the ending and deleting the pod are two calls."""
        self._leaving: dict[str, _Leaving] = {}
        """Forgotten pods that still exist, by UID."""

    def close(self) -> None:
        """Stop following logs; the pods run on."""
        self.logs.close()

    # The life of a launch

    def launch(self, launch: Launch) -> None:
        """Create the pod of the launch, unless it exists.

        Raises BackendFailed, and Refused, also for refusals by a webhook or a quota.
        """
        if launch.job.spec.time_limit_s is not None:
            self._limits.setdefault(launch.id, launch.job.spec.time_limit_s)
        if self.pods.get(launch.id) is not None:
            return
        placed, now = self._placed(launch), self._clock.now()
        body = pod_of(
            launch, self.names, self.namespace, self._site, kill_grace_s=self._kill_grace_s, placed=placed, now=now
        )
        self.logs.own(launch)
        with asked_again():
            if launch.members > 1 and launch.rank == 0:
                self._make_service(launch)
            self._create(launch.id, body)
        self.logs.begin(launch)

    def stop(self, launch_id: str) -> None:
        """Delete the launch's pod: SIGTERM, and after the grace period SIGKILL."""
        self._stop(launch_id, self._kill_grace_s)

    def signal(self, launch_id: str, word: str) -> None:
        """Tell the job to save its work: SIGTERM, and SIGKILL only after its time for saving. Raises Refused for other
        signals.
        """
        if CheckpointSignal.parse(word).name != "TERM":
            raise Refused(f"{word!r:.20} cannot be sent to a pod; SIGTERM can", field="name")
        pod = self.pods.get(launch_id)
        if pod is not None:
            # A later stop, after the time for saving, shortens the rest of this grace period.
            self._stop(launch_id, pod.checkpoint_grace_s + self._kill_grace_s)

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Replace the time limit as `corral.core.ports.runtime.Runtime.set_time_limit` does. Only this server enforces
        the limit.
        """
        pod = self.pods.get(launch_id)
        if pod is None:
            return
        self._limits[launch_id] = time_limit_s
        self.keep_time_limit(pod)

    def keep_time_limit(self, pod: LaunchedPod) -> None:
        """End the pod if it has exceeded its time limit."""
        limit_s = self._limits.get(pod.launch_id)
        if limit_s is None or pod.started_at is None or pod.over or pod.ending:
            return
        seen_s = time.monotonic() - self._seen_at.setdefault(pod.uid, time.monotonic())
        told_s = self._clock.now() - max(pod.started_at, pod.created_at or pod.started_at)
        # The signal comes early enough for the job to save its work within its limit.
        if max(seen_s, told_s) >= limit_s - pod.checkpoint_grace_s:
            self.end(pod, Phase.TIMED_OUT, None, pod.checkpoint_grace_s or self._kill_grace_s)

    def report(self, launch_id: str) -> LaunchReport:
        pod = self.pods.get(launch_id)
        if pod is not None and pod.uid not in self._leaving:
            return report(pod, self.warnings.of(pod))
        if not self.pods.synced:
            raise NodeUnreachable(f"the pods in {self.namespace} are not known yet")
        return LaunchReport(launch_id, LaunchPhase.UNKNOWN)

    def look(self, launch_id: str) -> None:
        """Update the report as `corral.engines.kubernetes.engine.runtimes.ClusterRuntime.look` does."""
        with asked_again(), suppress(NoSuchObject):
            self.pods.answered(self._cluster.get(PODS, self.names.pod(launch_id), self.namespace))

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        """Create a tombstone with the name of the launch's pod, so that a late request cannot create the pod any more.

        Return False if the pod exists, or if the launch is known to have run.
        """
        body = tombstone_of(launch_id, self.names, self.namespace, self._site, ran=ran)
        try:
            with asked_again():
                pod = self._create(launch_id, body)
        except Refused as refused:
            raise BackendFailed(f"the name of the pod of launch {launch_id} cannot be taken: {refused}") from None
        return pod.tombstone and pod.ending != LaunchPhase.DEAD

    def launches(self) -> tuple[str, ...]:
        return tuple(pod.launch_id for pod in self.on_record())

    def forget(self, launch_id: str) -> None:
        """Delete the launch's pod, at once or as soon as possible. A tombstone stays as long as a late request might
        still create the pod.
        """
        self._limits.pop(launch_id, None)
        pod = self.pods.get(launch_id)
        if pod is None or pod.uid in self._leaving:
            return
        self._seen_at.pop(pod.uid, None)
        self._ended.discard(pod.uid)
        now = time.monotonic()
        log_until_s = now + (LOG_PATIENCE_S if pod.over else 0.0)
        leaving = _Leaving(pod, now + (LATE_REQUEST_S if pod.tombstone else 0.0), log_until_s)
        self._leaving[pod.uid] = leaving
        if not pod.tombstone:
            with suppress(NodeUnreachable):
                self._let_leave(leaving)

    def rendezvous(self, launch_id: str) -> Rendezvous:
        """Return the meeting place of the members of a gang: the pod of rank 0, by its name in the cluster's DNS."""
        return Rendezvous(self.names.address(member_of(launch_id)[0], self.namespace), MASTER_PORT, 0, "")

    def pids(self, launch_id: str) -> frozenset[int]:
        """Return no pids: the processes belong to another host."""
        return frozenset()

    def main_processes(self, launch_id: str) -> MainProcesses:
        """Return no processes: they belong to another host."""
        return MainProcesses()

    def lineage(self, launch_id: str) -> Lineage:
        """Return no marks: the processes belong to another host."""
        return Lineage()

    # For its engine

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        """Run a command in the launch's container, with the container's user and environment.

        Raises Conflict if the pod does not run, Forbidden if this server lacks the right.
        """
        pod = self.pods.get(launch_id)
        if pod is None or pod.over or pod.deleted_at is not None:
            raise Conflict("its pod has ended or is being ended")
        if not pod.has_run:
            raise Conflict("its container has not started")
        terminal = command.terminal is not None
        try:
            line, talk = self._cluster.begin_in_pod(
                pod.name,
                pod.namespace,
                CONTAINER,
                command.words,
                stdin=command.stdin or terminal,
                terminal=terminal,
                timeout_s=EXECUTE_S,
            )
        except NoSuchObject:
            raise Conflict("its pod is gone") from None
        return PodExecution(line, talk, command)

    def pod_name(self, launch_id: str) -> tuple[str, str]:
        """Return namespace and name of the pod that runs a launch, or would run it."""
        return self.namespace, self.names.pod(launch_id)

    def on_record(self) -> tuple[LaunchedPod, ...]:
        """Return the pods that were not forgotten."""
        return tuple(pod for pod in self.pods.all() if pod.uid not in self._leaving)

    # For its patrol

    def end(self, pod: LaunchedPod, ending: str, reason: str | None, grace_s: float) -> None:
        """Write on the pod the phase in which it is to end, and why. Then delete it."""
        self._ended.add(pod.uid)
        try:
            with asked_again():
                if not pod.ending:
                    marks = {ENDING: str(ending), **({} if reason is None else {REASON: reason})}
                    body = {"metadata": {"uid": pod.uid, "annotations": marks}}
                    self.pods.answered(self._cluster.patch(PODS, pod.name, body, self.namespace))
                self.logs.follow(pod, grace_s, wait_s=FOLLOWED_S)
                self._cluster.delete(PODS, pod.name, self.namespace, uid=pod.uid, grace_s=math.ceil(grace_s))
        except NoSuchObject:
            # Another client has deleted the pod. The watch will report that.
            return
        except BaseException:
            self._ended.discard(pod.uid)
            raise

    def finish_end(self, pod: LaunchedPod) -> None:
        """Delete a pod on which an earlier server has written an ending without deleting it."""
        if pod.ending and pod.deleted_at is None and pod.uid not in self._ended:
            grace_s = pod.checkpoint_grace_s + self._kill_grace_s
            self.end(pod, pod.ending, pod.ending_reason or None, grace_s)

    def remove_forgotten(self) -> None:
        """Delete forgotten pods that still exist, if their time has come."""
        for pod in self.on_record():
            # The server that settled this launch ended before it deleted the tombstone.
            if pod.tombstone and self._clock.now() - (pod.created_at or 0.0) > TOMBSTONE_S:
                self.forget(pod.launch_id)
        began = time.monotonic()
        for leaving in sorted(self._leaving.values(), key=lambda one: one.due_s):
            if leaving.due_s <= began and time.monotonic() - began < LEAVING_S:
                self._let_leave(leaving)

    def _stop(self, launch_id: str, grace_s: float) -> None:
        pod = self.pods.get(launch_id)
        if pod is None or pod.over:
            return
        ending = pod.ending and pod.deleted_at is not None
        if not ending or (pod.grace_s or 0) > math.ceil(grace_s):
            self.end(pod, Phase.CANCELLED, None, grace_s)

    def _create(self, launch_id: str, body: Json) -> LaunchedPod:
        """Create the pod, or return the existing pod of that name. Raises BackendFailed if that pod belongs to no
        launch.
        """
        name = self.names.pod(launch_id)
        try:
            made = self._cluster.create(PODS, body, self.namespace)
        except AlreadyExists:
            made = self._cluster.get(PODS, name, self.namespace)
        except ObjectChanged as error:
            # Many pods contend for the counter of a quota. Nothing was created, and a later try may succeed.
            raise BackendFailed(str(error)) from None
        pod = self.pods.answered(made)
        if pod is None or pod.launch_id != launch_id:
            raise BackendFailed(f"pod {self.namespace}/{name} is there already, and is not of launch {launch_id}")
        return pod

    def _make_service(self, launch: Launch) -> None:
        try:
            self._cluster.create(SERVICES, service_of(launch, self.names, self.namespace), self.namespace)
        except AlreadyExists:
            return

    def _let_leave(self, leaving: "_Leaving") -> None:
        """Delete the pod and release its object, once its log is read."""
        pod = leaving.pod
        if not self.logs.finish(pod, last_try=time.monotonic() >= leaving.log_until_s):
            leaving.due_s = time.monotonic()  # behind the others
            return
        allocation_id, rank = member_of(pod.launch_id)
        with asked_again():
            try:
                self._cluster.delete(PODS, pod.name, self.namespace, uid=pod.uid, grace_s=0 if pod.over else None)
                if pod.held:
                    released = {"metadata": {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
                    self._cluster.patch(PODS, pod.name, released, self.namespace, patch_type="strategic")
            except (NoSuchObject, ObjectChanged):
                self._must_be_gone(pod)
            # A tombstone does not have the number of members. The service is made before the pod of rank 0.
            if rank == 0 and (pod.members > 1 or pod.tombstone):
                self._cluster.delete(SERVICES, self.names.service(allocation_id), self.namespace)
        self.pods.let_go(pod)
        self.logs.forget(pod.launch_id)
        self._leaving.pop(pod.uid, None)

    def _must_be_gone(self, pod: LaunchedPod) -> None:
        """Raise ClusterFailed if the same pod still exists because a change prevented its deletion."""
        with suppress(NoSuchObject):
            if self._cluster.get(PODS, pod.name, self.namespace)["metadata"].get("uid") == pod.uid:
                raise ClusterFailed(f"pod {self.namespace}/{pod.name} changed while it was deleted")
