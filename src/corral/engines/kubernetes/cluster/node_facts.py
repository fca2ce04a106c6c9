"""The facts that Corral keeps of a node of Kubernetes."""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from corral.core.model.placing.placement_rules import HOSTNAME_LABEL, Taint, TaintEffect
from corral.engines.kubernetes.cluster.amounts import NOTHING, Amounts, read_amounts, shared
from corral.engines.kubernetes.cluster.objects import annotations, labels, mapping, sequence, text
from corral.engines.kubernetes.cluster.quantities import BadQuantity

_EFFECTS = {str(effect): effect for effect in TaintEffect}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts of one node. Heartbeats do not change them: two values are equal until something relevant changes.

    Attributes:
        name: its name, by which pods are bound.
        uid: its UID; a node that is deleted and made again gets another.
        labels: all of them.
        annotations: those that Corral reads.
        hostname: its label `kubernetes.io/hostname`, used by affinity; it may differ from `name`.
        unschedulable: it is cordoned.
        taints: in their order.
        ready: whether its kubelet says that it is ready; None if unknown, as when the kubelet is silent.
        not_ready_why: the reason and message of its condition, if it is not ready.
        capacity: all its resources.
        allocatable: the resources that pods may take; only healthy devices.
        address: its internal IP address.
        unreadable: why its amounts cannot be read; they then count as zero. None if they can.
        boot_id: the kernel's identifier of its boot.
    """

    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    hostname: str
    unschedulable: bool
    taints: tuple[Taint, ...]
    ready: bool | None
    not_ready_why: str | None
    capacity: Amounts
    allocatable: Amounts
    address: str | None
    unreadable: str | None = None
    boot_id: str | None = None


def read_node(item: Mapping[str, Any]) -> NodeFacts:
    """Read a Node object, which is untrusted text of its kubelet and others."""
    metadata, spec, status = (mapping(item.get(part)) for part in ("metadata", "spec", "status"))
    name = str(metadata.get("name") or "")
    node_labels = labels(metadata)
    ready, why = _readiness(status)
    capacity = allocatable = NOTHING
    unreadable = None
    try:
        capacity, allocatable = (shared(read_amounts(status.get(part))) for part in ("capacity", "allocatable"))
    except BadQuantity as error:
        unreadable = str(error)
    return NodeFacts(
        name=name,
        uid=str(metadata.get("uid") or ""),
        labels=node_labels,
        annotations=annotations(metadata),
        hostname=node_labels.get(HOSTNAME_LABEL) or name,
        unschedulable=spec.get("unschedulable") is True,
        taints=tuple(_taint(written) for written in sequence(spec.get("taints"))),
        ready=ready,
        not_ready_why=why,
        capacity=capacity,
        allocatable=allocatable,
        address=_address(status),
        unreadable=unreadable,
        boot_id=text(mapping(status.get("nodeInfo")).get("bootID")),
    )


def _taint(written: Mapping[str, Any]) -> Taint:
    """Read a taint. An unknown effect counts as NoSchedule, the strictest that matters to the planner."""
    key, value, effect = (intern(str(written.get(part) or "")) for part in ("key", "value", "effect"))
    return Taint(key, value, _EFFECTS.get(effect, TaintEffect.NO_SCHEDULE))


def _readiness(status: Mapping[str, Any]) -> tuple[bool | None, str | None]:
    for condition in sequence(status.get("conditions")):
        if condition.get("type") == "Ready":
            if condition.get("status") == "True":
                return True, None
            why = ": ".join(part for key in ("reason", "message") if (part := text(condition.get(key))))
            return (False if condition.get("status") == "False" else None), why or None
    return None, "its kubelet has never said whether it is ready"


def _address(status: Mapping[str, Any]) -> str | None:
    for address in sequence(status.get("addresses")):
        if address.get("type") == "InternalIP":
            return text(address.get("address"))
    return None
