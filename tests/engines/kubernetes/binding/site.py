"""A server's real core that binds pods on a real API server, over nodes that only the core knows more of."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corral.clock import SystemClock
from corral.core.control.core import ControlCore
from corral.core.control.running.pod_jobs import LedgerPodJobs
from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.fact import ConditionObserved, NodeObserved
from corral.core.model.home import Home
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.ports.images import ImageRegistry
from corral.core.ports.ledger import JobQuery
from corral.engines.kubernetes.binding.binder import Binder
from corral.engines.kubernetes.binding.binding_runtime import BindingRuntime, pod_of_launch, present_launch
from corral.engines.kubernetes.binding.bound_mark import BoundMarks
from corral.engines.kubernetes.binding.pods_of_others import pods_of_others
from corral.engines.kubernetes.binding.serving_lease import ServingLease, candidate
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import NoSuchObject
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import PODS
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.sim.faults.live_server import LiveServer
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node

PATIENCE_S = 60.0


class OneNode:
    """What of a binding runtime is one node's, as its agent has it."""

    def __init__(self, runtime: BindingRuntime, node: str) -> None:
        self._runtime = runtime
        self._node = node
        self.on_event: Callable[[str], None] = lambda launch_id: None

    def launches(self) -> tuple[str, ...]:
        return tuple(one.launch_id for one in self._runtime.on_record() if one.node == self._node)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)


class Site:
    """One server; `restart` ends it and begins another over the same ledger."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        directory: Path,
        nodes: list[Node],
        *,
        tag: str = "site",
        registry: ImageRegistry | None = None,
    ) -> None:
        self.cluster = cluster
        self.tag = tag
        self._namespace = namespace
        directory.mkdir()
        self._home = Home(directory)
        self._nodes = nodes
        self._registry = registry
        self._begin()

    def _begin(self) -> None:
        self._watch = ObjectWatch(self.cluster, PODS, Selection(fields=f"spec.schedulerName={self._namespace}"))
        self.pods = pods_of_others(self._watch, scheduler=self._namespace)
        self._watch.start()
        self._watch.wait_until_synced(PATIENCE_S)
        self.jobs: LedgerPodJobs | None = None
        self.marks = BoundMarks(self.tag, self._pod_of, self._present_of)
        self.lease = ServingLease(self.cluster, self._namespace, candidate(self.tag, self._home.root))
        self.lease.begin()
        self.runtime = BindingRuntime(
            self.cluster,
            self.pods,
            self._pod_of,
            marks=self.marks,
            lease=self.lease,
            on_deletion=self._cancel,
        )
        self._agents = {node.name: OneNode(self.runtime, node.name) for node in self._nodes}
        agents = {name: SimulatedNode(one, SystemClock()) for name, one in self._agents.items()}  # type: ignore[arg-type]
        observed = [NodeObserved(node) for node in self._nodes]
        idle = [ConditionObserved(DeviceCondition(one.uuid)) for node in self._nodes for one in node.devices]
        self.server = LiveServer(self._home, agents, [*observed, *idle], attend=self._attend, registry=self._registry)
        self.runtime.on_event = self._tell
        assert self.jobs is not None
        self.binder: Binder = Binder(self.cluster, self.pods, self.jobs, users={}, marks=self.marks, lease=self.lease)
        self.binder.start()

    def _tell(self, launch_id: str) -> None:
        for one in self._agents.values():
            one.on_event(launch_id)

    def _cancel(self, job_id: str, why: str) -> None:
        assert self.jobs is not None
        self.jobs.cancel(job_id, why)

    def _attend(self, core: ControlCore) -> None:
        self.jobs = core.pod_jobs
        self.marks.note_bound_before(ref for job in self.jobs.live() if job.started_at for ref in job.spec.pods)

    def _pod_of(self, launch_id: str) -> PodRef | None:
        return None if self.jobs is None else pod_of_launch(self.jobs, launch_id)

    def _present_of(self, launch_id: str) -> str:
        return launch_id if self.jobs is None else present_launch(self.jobs, launch_id)

    def restart(self) -> None:
        self.close()
        self._begin()

    def stop_watching(self) -> None:
        """The server is told nothing more of pods."""
        self._watch.stop()

    def close(self) -> None:
        self.binder.close()
        self._watch.stop()
        self.server.close()
        self.lease.close()

    def all_jobs(self) -> list[Job]:
        return list(self.server.ledger.jobs(JobQuery()))

    def job(self, namespace: str, name: str) -> Job:
        return next(job for job in self.all_jobs() if job.spec.name == f"{namespace}/{name}")

    def eventually(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, (
                f"not within {PATIENCE_S:.0f} s; {[(job.spec.name, job.phase, job.reason) for job in self.all_jobs()]}"
            )
            time.sleep(0.02)

    def found(self, name: str, namespace: str) -> dict[str, Any] | None:
        try:
            return self.cluster.get(PODS, name, namespace)
        except NoSuchObject:
            return None

    def node_of(self, name: str, namespace: str) -> str | None:
        found = self.found(name, namespace)
        return None if found is None else found["spec"].get("nodeName")

    def runs(self, name: str, namespace: str) -> None:
        """The pod runs, as its kubelet would say, and the server knows."""
        self.eventually(lambda: self.node_of(name, namespace) is not None)
        self.cluster.patch(PODS, name, {"status": {"phase": "Running"}}, namespace, subresource="status")
        self.eventually(lambda: self.job(namespace, name).phase is Phase.RUNNING)

    def ended(self, name: str, namespace: str, phase: str = "Succeeded", exit_code: int = 0) -> None:
        """The pod has ended, as its kubelet would say."""
        terminated = {"exitCode": exit_code, "reason": "Completed" if exit_code == 0 else "Error"}
        status = {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0}
        status["state"] = {"terminated": terminated}
        body = {"status": {"phase": phase, "containerStatuses": [status]}}
        self.cluster.patch(PODS, name, body, namespace, subresource="status")


def pod_of_others(
    name: str, namespace: str, *, gpus: int = 1, annotations: dict[str, str] | None = None, **spec: Any
) -> Any:
    """A pod for the Corral of the test to bind, which is called like its namespace: tests share an API server."""
    # No kubelet lets go of what is deleted, unless a test plays one and sets another grace.
    made = pod(name, namespace, gpus=gpus, **{"schedulerName": namespace, "terminationGracePeriodSeconds": 0, **spec})
    made["metadata"]["annotations"] = annotations or {}
    return made


def model_node(name: str, gpus: int = 8, **more: Any) -> Node:
    devices = tuple(Device(f"{name}/gpu-{slot}", slot, "NVIDIA H100", 81_559) for slot in range(gpus))
    return Node(name, devices, 64_000, 512 * 1024, disk_mib=1 << 20, most_members=110, **more)


@contextmanager
def site(
    cluster: Cluster,
    namespace: str,
    directory: Path,
    *,
    nodes: int = 2,
    gpus: int = 8,
    registry: ImageRegistry | None = None,
    **more: Any,
) -> Iterator[Site]:
    """A server over some nodes of its own, which the API server has, too."""
    names = [f"bind-{uuid.uuid4().hex[:8]}-{number}" for number in range(nodes)]
    for name in names:
        make_node(cluster, name, gpus=gpus)
    running = Site(cluster, namespace, directory, [model_node(name, gpus, **more) for name in names], registry=registry)
    try:
        yield running
    finally:
        running.close()
