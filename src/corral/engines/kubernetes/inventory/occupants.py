"""The resources that a pod takes of a node until it has ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from sys import intern
from typing import Any, NamedTuple

from corral.core.model.devices.device import HoldingPod
from corral.core.model.errors import Refused
from corral.core.model.placing.placement_rules import NAMESPACE_TAG, Labels, Selector
from corral.engines.kubernetes.cluster.amounts import Amounts
from corral.engines.kubernetes.cluster.gpu_resources import gpus_of
from corral.engines.kubernetes.cluster.objects import annotations, labels, mapping, owner, sequence, text, time_s
from corral.engines.kubernetes.cluster.pod_facts import ENDED, read_requests
from corral.engines.kubernetes.inventory.pod_placement_rules import repelled_by
from corral.engines.kubernetes.shares.pod_shares import OWN_NAMES, HeldShare, PodShares
from corral.engines.kubernetes.shares.share_layers import has_devices, share_layers
from corral.untrusted import Unread, guarded

PodName = tuple[str, str]
"""The namespace and the name of a pod."""


class PodContainer(NamedTuple):
    """A container of a pod, by the id that its runtime has given it."""

    id: str
    name: str
    image: str


@dataclass(frozen=True, slots=True)
class Occupant:
    """A pod that is bound to a node and has not ended.

    Attributes:
        gpus: the number of devices that it takes.
        requests: all resources that it takes, as Kubernetes counts them.
        tags: its labels and its namespace, for rules about pods on the same node.
        apart: selectors of the pods that it keeps off its node.
        running: its containers that run, if it has devices.
        containers: its containers that have an id, if it has devices.
        shares: the devices that it has of a node whose software gives parts of devices.
        unread_shares: why those cannot be read; it then counts as having all devices of such a node. None if they can.
        unreadable: why its requests cannot be read; it then counts as taking the whole node. None if they can.
    """

    uid: str
    node: str
    pod: HoldingPod
    requests: Amounts
    tags: Labels
    apart: tuple[Selector, ...] = ()
    unreadable: str | None = None
    running: tuple[str, ...] = ()
    containers: tuple[PodContainer, ...] = ()
    shares: tuple[HeldShare, ...] = ()
    unread_shares: str | None = None

    @property
    def key(self) -> PodName:
        """The pod's namespace and name."""
        return self.pod.namespace, self.pod.name

    @property
    def gpus(self) -> int:
        """The number of devices that the pod takes."""
        return gpus_of(self.requests)


def keep_occupant(item: Mapping[str, Any], names: PodShares = OWN_NAMES) -> Occupant | None:
    """Return the occupant of a Pod object, or None if the pod has no node yet or has ended.

    `names` reads parts of devices.
    """
    metadata, spec, status = (mapping(item.get(part)) for part in ("metadata", "spec", "status"))
    # Most pods of a cluster that has run for long have ended: they are not read further.
    if status.get("phase") in ENDED or not (node := text(spec.get("nodeName"))):
        return None
    namespace, marked, controller = intern(str(metadata.get("namespace") or "")), labels(metadata), owner(metadata)
    name = str(metadata.get("name") or "")
    requests, unreadable = read_requests(spec, f"{namespace}/{name}")
    apart: tuple[Selector, ...] | Unread = ()
    if spec.get("affinity"):
        apart = guarded(f"the affinity of pod {namespace}/{name}", partial(repelled_by, spec, marked, namespace))
    if isinstance(apart, Unread):
        # It is unknown which pods this pod keeps off, so its node counts as full.
        apart, unreadable = (), f"its affinity {apart}"
    shares: tuple[HeldShare, ...] = ()
    unread_shares: str | None = None
    if has_devices(requests):
        read = guarded(f"the GPUs of pod {namespace}/{name}", partial(_shares, spec, annotations(metadata), names))
        if isinstance(read, tuple):
            shares = read
        else:
            unread_shares = f"the part of a GPU that it has {read}"
    return Occupant(
        uid=str(metadata.get("uid") or ""),
        node=intern(node),
        pod=HoldingPod(
            namespace,
            name,
            None if controller is None else intern(str(controller)),
            time_s(metadata.get("creationTimestamp")),
        ),
        requests=requests,
        tags=_shared(tuple(sorted({**marked, NAMESPACE_TAG: namespace}.items()))),
        apart=apart,
        unreadable=unreadable,
        running=_running(status) if gpus_of(requests) else (),
        containers=_containers(status) if has_devices(requests) else (),
        shares=shares,
        unread_shares=unread_shares,
    )


def _shares(spec: Mapping[str, Any], notes: Mapping[str, str], names: PodShares) -> tuple[HeldShare, ...] | str:
    """Return the devices that the pod has of nodes that give parts of devices, or why they cannot be read."""
    try:
        whole = [one for layer, _ in share_layers() if layer.count for one in names.whole_held(spec, notes, layer)]
        return (*names.held(spec, notes), *whole)
    except Refused as refused:
        return f"cannot be read: {refused}"


def _running(status: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        intern(str(one.get("name") or ""))
        for one in sequence(status.get("containerStatuses"))
        if "running" in mapping(one.get("state")) and "terminated" not in mapping(one.get("state"))
    )


def _containers(status: Mapping[str, Any]) -> tuple[PodContainer, ...]:
    # The id is written with its runtime, as containerd://ID.
    found = (
        (str(one.get("containerID") or "").rpartition("://")[2], one)
        for part in ("initContainerStatuses", "containerStatuses")
        for one in sequence(status.get(part))
    )
    return tuple(
        PodContainer(id_, intern(str(one.get("name") or "")), intern(str(one.get("image") or "")))
        for id_, one in found
        if id_
    )


@lru_cache(maxsize=10_000)
def _shared(tags: Labels) -> Labels:
    """Return one shared value for equal labels: pods of one controller have the same."""
    return tags
