"""All that binds the pods of others, put together for an engine."""

import logging
from collections.abc import Callable, Mapping

from corral.kubernetes.binding.binder import Binder
from corral.kubernetes.binding.binding_runtime import BindingRuntime, pod_of_launch
from corral.kubernetes.binding.pods_of_others import SCHEDULER, pods_of_others
from corral.kubernetes.cluster.client import Cluster
from corral.kubernetes.cluster.object_watch import ObjectWatch
from corral.kubernetes.cluster.rights import BINDING, missing_rights
from corral.model.pod_ref import PodRef
from corral.ports.pod_jobs import PodJobs

log = logging.getLogger(__name__)


class PodBinding:
    """Binds those of `pods` that name `scheduler`, once it was told of the ledger's jobs (`attend`) and has begun.

    `users` says whose pods are whose, as `binder.Users`. `on_event(launch_id)` is called when a report may be new.
    """

    def __init__(
        self,
        cluster: Cluster,
        pods: ObjectWatch,
        on_event: Callable[[str], None],
        *,
        scheduler: str = SCHEDULER,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._users = users or {}
        self._pods = pods_of_others(pods, scheduler=scheduler)
        self.runtime = BindingRuntime(cluster, self._pods, self._pod_of, on_event, self._cancel)
        self._jobs: PodJobs | None = None
        self._binder: Binder | None = None

    def attend(self, jobs: PodJobs) -> None:
        """These are the jobs that pods become."""
        self._jobs = jobs

    def has(self, job_id: str) -> bool:
        """Whether a job, also one that has ended, stands for pods of others."""
        job = None if self._jobs is None else self._jobs.find(job_id)
        return job is not None and bool(job.spec.pods)

    def begin(self) -> None:
        """Have pods wait as jobs, if the cluster lets this server bind them."""
        assert self._jobs is not None, "it is told of the jobs before it begins"
        if missing := missing_rights(self._cluster, BINDING):
            lacking = ", ".join(str(right) for right in missing)
            log.warning(
                "pods with schedulerName %s are not bound: missing in the whole cluster is %s", self._scheduler, lacking
            )
            return
        self._binder = Binder(self._cluster, self._pods, self._jobs, self._users)
        self._binder.start()

    def close(self) -> None:
        """Stop; pods wait until the next server looks at them."""
        if self._binder is not None:
            self._binder.close()

    def _cancel(self, job_id: str, why: str) -> None:
        if self._jobs is not None:
            self._jobs.cancel(job_id, why)

    def _pod_of(self, launch_id: str) -> PodRef | None:
        return None if self._jobs is None else pod_of_launch(self._jobs, launch_id)
