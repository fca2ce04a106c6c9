"""Assembles all parts that bind the pods of others, for an engine."""

import logging
from collections.abc import Callable, Mapping

from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.ports.pod_jobs import PodJobs
from corral.engines.kubernetes.binding.binder import Binder
from corral.engines.kubernetes.binding.binding_runtime import BindingRuntime, pod_of_launch, present_launch
from corral.engines.kubernetes.binding.bound_mark import BoundMarks
from corral.engines.kubernetes.binding.lease_record import LeaseCandidate
from corral.engines.kubernetes.binding.pods_of_others import SCHEDULER, pods_of_others
from corral.engines.kubernetes.binding.serving_lease import ServingLease
from corral.engines.kubernetes.binding.share_notes import Placed, as_counted
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.rights import BINDING, missing_rights
from corral.engines.kubernetes.shares.pod_shares import OWN_NAMES, PodShares

log = logging.getLogger(__name__)


class PodBinding:
    """Binds the pods of `pods` that name `scheduler`, once it has the ledger's jobs (`attend`) and has begun.

    `me` is the server that wants to bind them. `users` gives the user of each pod, as `binder.Users`.
    `on_event(launch_id)` is called when a launch may have a new report. `names` reads parts of GPUs. `placed` returns
    the devices of a launch as the software of its node knows them.
    """

    def __init__(
        self,
        cluster: Cluster,
        pods: ObjectWatch,
        me: LeaseCandidate,
        on_event: Callable[[str], None],
        *,
        scheduler: str = SCHEDULER,
        users: Mapping[str, str] | None = None,
        names: PodShares = OWN_NAMES,
        placed: Placed = as_counted,
    ) -> None:
        self._cluster = cluster
        self._users = users or {}
        self._pods = pods_of_others(pods, scheduler=scheduler, names=names)
        self._marks = BoundMarks(me.tag, self._pod_of, self._present_of)
        self._lease = ServingLease(cluster, scheduler, me)
        self.runtime = BindingRuntime(
            cluster,
            self._pods,
            self._pod_of,
            marks=self._marks,
            lease=self._lease,
            on_event=on_event,
            on_deletion=self._cancel,
            placed=placed,
        )
        self._jobs: PodJobs | None = None
        self._binder: Binder | None = None
        self._lacking: str | None = None

    def open(self) -> None:
        """Take the lease, or wait for it, if the cluster lets this server bind pods. Call this before nodes are
        read.
        """
        if missing := missing_rights(self._cluster, BINDING):
            lacking = ", ".join(str(right) for right in missing)
            self._lacking = (
                f"pods with schedulerName {self._lease.scheduler} are not bound: this server may not {lacking}; "
                "docs/kubernetes.md has the rights that it needs"
            )
            log.warning("%s", self._lacking)
            return
        self._lease.begin()

    @property
    def scheduler(self) -> str:
        """The `schedulerName` of the pods that it binds."""
        return self._lease.scheduler

    @property
    def why_not(self) -> str | None:
        """The reason why this server does not bind pods of others now, with the remedy; None if it binds them."""
        return self._lacking or self._lease.why_not

    def attend(self, jobs: PodJobs) -> None:
        """Set the jobs that stand for pods."""
        self._jobs = jobs
        for job in jobs.live():
            if job.phase is not Phase.PENDING:
                self._marks.note_bound_before(job.spec.pods)

    def has(self, job_id: str) -> bool:
        """Return whether a running or ended job stands for pods of others."""
        job = None if self._jobs is None else self._jobs.find(job_id)
        return job is not None and bool(job.spec.pods)

    def begin(self) -> None:
        """Start to submit pods as jobs. This happens only while this server has the lease."""
        assert self._jobs is not None, "it is told of the jobs before it begins"
        if self._lacking is None:
            self._binder = Binder(
                self._cluster, self._pods, self._jobs, users=self._users, marks=self._marks, lease=self._lease
            )
            self._binder.start()

    def close(self) -> None:
        """Stop, and release the lease for other servers. Pods wait until the next server reads them."""
        if self._binder is not None:
            self._binder.close()
        if self._lacking is None:
            self._lease.close()

    def _cancel(self, job_id: str, why: str) -> None:
        if self._jobs is not None:
            self._jobs.cancel(job_id, why)

    def _pod_of(self, launch_id: str) -> PodRef | None:
        return None if self._jobs is None else pod_of_launch(self._jobs, launch_id)

    def _present_of(self, launch_id: str) -> str:
        return launch_id if self._jobs is None else present_launch(self._jobs, launch_id)
