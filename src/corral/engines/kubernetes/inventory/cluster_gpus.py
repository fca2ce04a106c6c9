"""The GPUs of a cluster at one moment: its nodes, the requests of pods, and the readings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.core.model.placing.placement_rules import PlacementRules, Toleration, untolerated
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.gpu_resources import gpu_resources, gpus_of
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.inventory.readings.cluster_readings import (
    EXPORTERS_ALONE,
    GpuContainer,
    ReadingsFound,
    ReadingSources,
    every_name,
    read_gpus,
)
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.engines.kubernetes.inventory.seen_node import why_closed

LIST_S = 60.0
"""The time limit of the listing. A cluster of 5,000 nodes and 40,000 pods takes far less."""

NO_READINGS = ReadingsFound({})

GPU_POD = PlacementRules(tolerations=tuple(Toleration(resource) for resource in gpu_resources()))
"""The rules of any pod with GPUs: a taint named like their resource keeps only others off, as clusters add the
toleration to it.
"""


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The facts about the GPUs of one node.

    Attributes:
        total_gpus, allocatable_gpus: the number of all its GPUs, and of the healthy ones; pods lower neither.
        requested_gpus: the GPUs requested by pods on it that have not ended.
        unusable: why no service may be put there; None if it may.
    """

    node_name: str
    total_gpus: int
    allocatable_gpus: int
    requested_gpus: int = 0
    unusable: str | None = None
    readings: tuple[GpuReading, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterGpus:
    """The nodes with GPUs, the pods that have some, and the readings of all sources."""

    node_facts: Sequence[NodeFacts]
    pods: Sequence[PodFacts]
    readings: ReadingsFound = NO_READINGS

    def nodes(self) -> list[NodeGpus]:
        """Return the nodes with GPUs, as a service without rules of its own sees them."""
        asked = self._asked()
        return [_node(node, asked.get(node.name, 0), self.readings) for node in self.node_facts]

    def _asked(self) -> dict[str, int | None]:
        """Return the number of GPUs requested by the pods on each node; None if a request cannot be read."""
        asked: dict[str, int | None] = {}
        for pod in self.pods:
            if pod.node is not None and not pod.ended:
                before = asked.get(pod.node, 0)
                unknown = before is None or pod.unreadable is not None
                asked[pod.node] = None if before is None or unknown else before + gpus_of(pod.requests)
        return asked


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


def _node(node: NodeFacts, requested: int | None, readings: ReadingsFound) -> NodeGpus:
    allocatable = gpus_of(node.allocatable)
    return NodeGpus(
        node.name,
        max(gpus_of(node.capacity), allocatable),
        allocatable,
        allocatable if requested is None else requested,
        _unusable(node),
        readings.by_node.get(node.name, ()),
    )


def _unusable(node: NodeFacts) -> str | None:
    if (why := why_closed(node)) is not None:
        return why
    if node.unschedulable:
        return "it is cordoned in Kubernetes (kubectl uncordon)"
    taint = untolerated(node.taints, GPU_POD)
    return None if taint is None else f"it has the taint {taint}"
