"""Facts about a model service from its pods: its node, its GPUs, how its server ended, its last lines."""

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from corral.core.model.errors import CorralError
from corral.core.model.runs.exit_code import exit_code_in_words
from corral.engines.kubernetes.cluster.client import TIMEOUT_S, Cluster, Selection
from corral.engines.kubernetes.cluster.errors import MissingRight
from corral.engines.kubernetes.cluster.pod_facts import ContainerFacts, PodFacts, read_pod
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.inventory.occupants import Occupant
from corral.features.services.holds import service_key
from corral.features.services.service_kinds import KINDS, ServiceKind

_NO_IMAGE = ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_MOST_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class ServicePods:
    """The pods of one service at one moment: the living ones, and those that are ending or were evicted."""

    kind: ServiceKind
    alive: tuple[PodFacts, ...]
    going: tuple[PodFacts, ...] = ()

    @property
    def node(self) -> str | None:
        """The node of the first pod that is bound; None if Kubernetes has found no place for any."""
        return next((pod.node for pod in self.alive if pod.node is not None), None)

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self.alive)

    @property
    def why_no_place(self) -> str:
        """Kubernetes' reason why the pods have no node."""
        said = (pod.condition("PodScheduled") for pod in self.alive)
        return next((one.message for one in said if one is not None and one.message), "they were not looked at yet")

    @property
    def why_no_image(self) -> str | None:
        """Why an image cannot be had, in the words of its node; None if it can."""
        for pod in self.alive:
            for container in pod.containers:
                if container.state == "waiting" and container.reason in _NO_IMAGE:
                    return container.message or container.reason
        return None

    @property
    def dead(self) -> tuple[PodFacts, ContainerFacts] | None:
        """The server that has ended, now or before its restart, and its pod."""
        for pod in self.alive:
            for container in pod.containers:
                fetching = container.init and (container.exit_code or container.reason == "CrashLoopBackOff")
                serving = container.name == self.kind.container and (
                    container.state == "terminated" or container.restarts
                )
                if fetching or serving:
                    return pod, container
        return None

    @property
    def server(self) -> tuple[PodFacts, ContainerFacts] | None:
        """Return a server's pod and container, or None."""
        for pod in self.alive:
            for container in pod.containers:
                if container.name == self.kind.container:
                    return pod, container
        return None


def find_pods(cluster: Cluster, kind: ServiceKind, name: str, namespace: str) -> ServicePods | None:
    """The pods of a service; None if they may not be listed."""
    try:
        found = cluster.list(PODS, Selection(namespace, f"{kind.pod_label}={name}"))
    except MissingRight:
        return None
    pods = tuple(read_pod(item) for item in found)
    going = tuple(pod for pod in pods if _is_going(pod))
    return ServicePods(kind, tuple(pod for pod in pods if pod not in going), going)


def death_in_words(container: ContainerFacts) -> str:
    """Say how a server ended."""
    if container.exit_code is None:
        return f"the server ended, and was started again ({container.reason or container.state})"
    reason = f" ({container.reason})" if container.reason not in (None, "Error", "Completed") else ""
    return f"the server ended with {exit_code_in_words(container.exit_code, container.signal)}{reason}"


def last_lines(cluster: Cluster, pod: PodFacts, container: ContainerFacts, lines: int) -> str:
    """Return the last lines of a server; after a restart, those of before the restart."""
    previous = container.state != "terminated" and container.restarts > 0
    try:
        stream = cluster.read_log(
            pod.name,
            pod.namespace,
            container=container.name,
            tail_lines=lines,
            limit_bytes=_MOST_BYTES,
            previous=previous,
            silence_s=TIMEOUT_S,
        )
        with closing(stream):
            text = b"".join(stream.blocks()).decode(errors="replace").strip()
    except CorralError:
        # Its node does not answer, or the right is missing: Kubernetes may have kept its last message.
        text = ""
    return text or (container.message or "").strip() or "(none)"


def _is_going(pod: PodFacts) -> bool:
    """Return whether the pod has ended, or is about to."""
    disrupted = pod.condition("DisruptionTarget")
    return pod.ended or pod.deleting_at_s is not None or (disrupted is not None and disrupted.status == "True")


def gpus_by_service(pods: Iterable[Occupant]) -> Counter[str]:
    """Return the number of GPUs that the bound pods of each model service have."""
    found: Counter[str] = Counter()
    for pod in pods:
        labels = dict(pod.tags)
        for kind in KINDS.values():
            if (name := labels.get(kind.pod_label)) is not None:
                found[service_key(kind.via, pod.pod.namespace, name)] += pod.gpus
    return found
