"""Pods on a real API server as a runtime under the contract of runtimes."""

import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from corral.clock import SystemClock
from corral.core.control.watching.patrol import Patrol
from corral.core.model.home import log_name
from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import JobSpec
from corral.core.model.runs.launch import Launch, log_mark
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.pods.names import Names
from corral.engines.kubernetes.pods.pod_patrol import INTERVAL_S, PodPatrol
from corral.engines.kubernetes.pods.runtime import PodRuntime
from corral.engines.kubernetes.pods.site import PodSite
from tests.engines.kubernetes.kubelet import Kubelet
from tests.engines.kubernetes.pods.launches import IMAGE
from tests.host.runtimes.contract import Rig

WORK = """
echo begun >> $DIRECTORY/$NAME.begun
echo "rank ${CORRAL_RANK:-0} writes"
until [ -e $DIRECTORY/$NAME.code ]; do sleep 0.02; done
exit $(cat $DIRECTORY/$NAME.code)
"""

KILL_GRACE_S = 1.0
PATIENCE_S = 60.0


class PodRig(Rig):
    """A runtime with its patrol, and work in a directory that all pods see, as they run on this host."""

    has_processes = False
    runtime: PodRuntime

    def __init__(self, cluster: Cluster, namespace: str, kubelet: Kubelet, directory: Path) -> None:
        super().__init__()
        self._cluster = cluster
        self._namespace = namespace
        self._directory = directory
        self.kubelet = kubelet
        self.site = PodSite()
        self.names = Names(uuid.uuid4().hex[:8])
        self._started()

    def _started(self) -> None:
        self._watch = ObjectWatch(self._cluster, PODS, Selection(self._namespace))
        self.runtime = PodRuntime(
            self._cluster,
            self.names,
            self.site,
            SystemClock(),
            self.events.put,
            pods=self._watch,
            logs=self._directory / "logs",
            namespace=self._namespace,
            kill_grace_s=KILL_GRACE_S,
        )
        self._watch.start()
        self._watch.wait_until_synced(PATIENCE_S)
        look = PodPatrol(self.runtime, kill_grace_s=KILL_GRACE_S).look
        self._patrol = Patrol("pod-patrol", look, INTERVAL_S)
        self._patrol.start()

    def spec(self, number: int) -> JobSpec:
        return JobSpec("alice", ("sh", "-c", WORK), container=Container(IMAGE))

    def launch_of(self, number: int = 1, *, rank: int = 0, members: int = 1) -> Launch:
        launch = super().launch_of(number, rank=rank, members=members)
        request = replace(launch.job.spec.request, devices=0, gang_size=members)
        job = replace(launch.job, spec=replace(launch.job.spec, request=request))
        env = {"CORRAL_RANK": str(rank), "NAME": launch.id, "DIRECTORY": str(self._directory), "PATH": os.defpath}
        return replace(launch, job=job, env=tuple(env.items()), node=self.kubelet.name, runtime="container")

    def let_go(self, launch: Launch, code: int) -> None:
        draft = self._directory / f"{launch.id}.draft"
        draft.write_text(str(code))
        draft.rename(self._directory / f"{launch.id}.code")

    def begun(self, launch: Launch) -> int:
        path = self._directory / f"{launch.id}.begun"
        return path.read_text().count("begun\n") if path.exists() else 0

    def restart(self, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._patrol.close()
        self.runtime.close()
        self._watch.stop()
        meanwhile()
        self._started()

    def stop_watching(self) -> None:
        """The runtime is told nothing more of its pods."""
        self._watch.stop()

    def log(self, launch: Launch) -> str:
        self.runtime.logs.read(launch.job.id, launch.rank, 0, 0, log_mark(launch.job))
        path = self._directory / "logs" / log_name(launch.job.id, launch.rank)
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        self._patrol.close()
        self.runtime.close()
        self._watch.stop()
