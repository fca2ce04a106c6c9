"""The pods that are bound to a node, as far as they ask for devices. Does no I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from corral.core.model.printable import printable
from corral.engines.kubernetes.cluster.objects import annotations, mapping, sequence, text
from corral.engines.kubernetes.cluster.pod_facts import ENDED
from corral.engines.kubernetes.cluster.quantities import BadQuantity, whole
from corral.engines.kubernetes.inventory.planned_devices import DEVICES, PlannedDevice, planned
from corral.untrusted import Unread, guarded
from corral.vendors.registry import vendors

_OTHER_DOMAINS = ("tencent.com/",)
_MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """The amounts of devices, and of their memory, that a container asks for, by resource.

    An init container ends before the next begins, so its devices are the pod's later, too.
    """

    name: str
    init: bool
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on the node that has not ended.

    Attributes:
        containers: those that ask for devices; init containers first.
        plan: the devices that the planner chose for it; None if its scheduler chose none.
        bad_plan: its annotation makes no sense, so that it gets no device.
        version: the version of the object. That of a pod that waits is of its binding; 0 if it is no number.
    """

    namespace: str
    name: str
    uid: str
    containers: tuple[ContainerAsk, ...]
    plan: tuple[PlannedDevice, ...] | None = None
    bad_plan: bool = False
    version: int = 0

    def asked(self, resource: str) -> int:
        """Return the most of a resource that the pod gets at a time."""
        amounts = [(one.init, one.amounts.get(resource, 0)) for one in self.containers]
        together = sum(amount for init, amount in amounts if not init)
        return max([together, *(amount for init, amount in amounts if init)])

    def __str__(self) -> str:
        return printable(f"pod {self.namespace}/{self.name}")

    @property
    def order(self) -> tuple[int, str, str]:
        """The order in which pods were bound, so in which a kubelet hears of them."""
        return self.version, self.namespace, self.name


def keep_bound_pod(item: Mapping[str, Any]) -> BoundPod | None:
    """Read a Pod object, which is untrusted. None if it has no node, has ended, or asks for no device."""
    metadata, spec, status = (mapping(item.get(part)) for part in ("metadata", "spec", "status"))
    if not spec.get("nodeName") or status.get("phase") in ENDED:
        return None
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    read = guarded(f"what devices pod {namespace}/{name} asks for", partial(_asks, spec))
    containers = () if isinstance(read, Unread) else read
    if not containers:
        return None
    written = annotations(metadata).get(DEVICES)
    plan = None if written is None else planned(written)
    return BoundPod(
        namespace,
        name,
        str(metadata.get("uid") or ""),
        containers,
        plan,
        bad_plan=written is not None and not plan,
        version=_version(metadata.get("resourceVersion")),
    )


def _asks(spec: Mapping[str, Any]) -> tuple[ContainerAsk, ...]:
    domains = (*(vendor.kubernetes.domain for vendor in vendors().values()), *_OTHER_DOMAINS)
    return (
        *_asks_of(sequence(spec.get("initContainers")), domains, init=True),
        *_asks_of(sequence(spec.get("containers")), domains, init=False),
    )


def _asks_of(written: list[Mapping[str, Any]], domains: tuple[str, ...], *, init: bool) -> Iterator[ContainerAsk]:
    # All of them: the kubelet allocates for each, and for one that was left out another pod's plan would be used.
    for one in written:
        limits = mapping(mapping(one.get("resources")).get("limits"))
        amounts = {name: _amount(limits[name]) for name in limits if name.startswith(domains)}
        if any(amounts.values()):
            # An init container that always restarts runs beside the others.
            yield ContainerAsk(str(one.get("name") or ""), init and one.get("restartPolicy") != "Always", amounts)


def _version(written: object) -> int:
    digits = text(written) or ""
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < _MOST_DIGITS else 0


def _amount(written: object) -> int:
    try:
        return whole(written)
    except BadQuantity:
        return 0
