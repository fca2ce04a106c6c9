"""The GPUs of a cluster at one moment: its nodes, the requests of pods, and the readings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.core.model.placing.placement_rules import HOSTNAME_LABEL
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.gpu_resources import gpu_labels, gpus_of
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.inventory.pod_rules import Rules, why_not_there
from corral.engines.kubernetes.inventory.readings.cluster_readings import (
    EXPORTERS_ALONE,
    GpuContainer,
    ReadingsFound,
    ReadingSources,
    every_name,
    read_gpus,
)
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading

LIST_S = 60.0
"""The time limit of the listing. A cluster of 5,000 nodes and 40,000 pods takes far less."""

NO_READINGS = ReadingsFound({})


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The facts about the GPUs of one node.

    Attributes:
        hostname: its label `kubernetes.io/hostname`, which may differ from its name; None if it has none.
        total_gpus, allocatable_gpus: the number of all its GPUs, and of the healthy ones; pods lower neither.
        requested_gpus: the GPUs requested by pods on it that have not ended.
        held_gpus: the GPUs chosen for services whose pods are not visible yet.
        memory_mib: the memory of one of its GPUs, from its labels.
        unusable: why no service may be put there; None if it may.
        partly_read: whether the readings cover only GPUs of pods.
    """

    node_name: str
    hostname: str | None
    total_gpus: int
    allocatable_gpus: int
    requested_gpus: int = 0
    held_gpus: int = 0
    memory_mib: int | None = None
    unusable: str | None = None
    readings: tuple[GpuReading, ...] = ()
    partly_read: bool = False


@dataclass(frozen=True, slots=True)
class ClusterGpus:
    """The nodes with GPUs, the pods that have some, and the readings of all sources."""

    node_facts: Sequence[NodeFacts]
    pods: Sequence[PodFacts]
    readings: ReadingsFound = NO_READINGS

    def nodes(
        self,
        held: Mapping[str, int] | None = None,
        rules: Rules | None = None,
        ready_nodes: frozenset[str] | None = None,
    ) -> list[NodeGpus]:
        """Return the nodes with GPUs, from the view of a service.

        Args:
            held: the number of GPUs held for other services, by node.
            rules: the placement rules of the service's runtime.
            ready_nodes: the nodes that have its model; None if any node will do.
        """
        asked = self._asked()
        return [self._node(node, asked, held or {}, rules or {}, ready_nodes) for node in self.node_facts]

    def _asked(self) -> dict[str, int | None]:
        """Return the number of GPUs requested by the pods on each node; None if a request cannot be read."""
        asked: dict[str, int | None] = {}
        for pod in self.pods:
            if pod.node is not None and not pod.ended:
                before = asked.get(pod.node, 0)
                unknown = before is None or pod.unreadable is not None
                asked[pod.node] = None if before is None or unknown else before + gpus_of(pod.requests)
        return asked

    def _node(
        self,
        node: NodeFacts,
        asked: Mapping[str, int | None],
        held: Mapping[str, int],
        rules: Rules,
        ready_nodes: frozenset[str] | None,
    ) -> NodeGpus:
        allocatable = gpus_of(node.allocatable)
        requested = asked.get(node.name, 0)
        return NodeGpus(
            node.name,
            node.labels.get(HOSTNAME_LABEL),
            max(gpus_of(node.capacity), allocatable),
            allocatable,
            allocatable if requested is None else requested,
            held.get(node.name, 0),
            gpu_labels(node).memory_mib,
            _unusable(node, ready_nodes) or why_not_there(node.labels, node.name, node.taints, rules),
            self.readings.by_node.get(node.name, ()),
            node.name in self.readings.partial,
        )


def list_gpus(cluster: Cluster, sources: ReadingSources = EXPORTERS_ALONE) -> ClusterGpus:
    """List all nodes and pods and read their GPUs now. Raises MissingRight if nodes or pods may not be listed."""
    nodes = cluster.read_all(NODES, keep_gpu_node, timeout_s=LIST_S)
    pods = cluster.read_all(PODS, keep_gpu_pod, timeout_s=LIST_S)
    return ClusterGpus(nodes, pods, read_gpus(cluster, every_name(nodes), sources, gpu_containers(pods)))


def keep_gpu_node(item: Mapping[str, object]) -> NodeFacts | None:
    """Return the facts of a node with GPUs, or None. A node whose amounts cannot be read counts as having none."""
    node = read_node(item)
    return node if gpus_of(node.capacity) or gpus_of(node.allocatable) else None


def keep_gpu_pod(item: Mapping[str, object]) -> PodFacts | None:
    """Return the facts of a pod that has GPUs or may have some, or None."""
    pod = read_pod(item)
    return pod if gpus_of(pod.requests) or pod.unreadable is not None else None


def gpu_containers(pods: Iterable[PodFacts]) -> list[GpuContainer]:
    """Return the running containers of pods with GPUs, each with its node. A container without a GPU may be
    among them.
    """
    return [
        GpuContainer(pod.node, pod.namespace, pod.name, container.name)
        for pod in pods
        if pod.node is not None
        for container in pod.containers
        if container.state == "running" and not container.init
    ]


def _unusable(node: NodeFacts, ready_nodes: frozenset[str] | None) -> str | None:
    if not node.ready:
        return f"it is not ready: {node.not_ready_why or 'its kubelet gives no reason'}"
    if node.unschedulable:
        return "it is cordoned in Kubernetes (kubectl uncordon)"
    if not node.labels.get(HOSTNAME_LABEL):
        return f"it has no label {HOSTNAME_LABEL}, by which it could be named"
    if ready_nodes is not None and node.name not in ready_nodes:
        return "the model is not ready on it"
    return None
