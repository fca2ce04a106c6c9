"""The devices of a node whose parts some software gives to pods, by the node's amounts and annotations. Pure.

Two that give out the same devices do not know of each other. So a node that offers its devices in more than one way has
no devices with parts here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.sharing.definitions import Catalogue
from corral.engines.kubernetes.cluster.gpu_resources import gpus_of
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.shares.share_layers import BY_UUID, share_layers, unit_of
from corral.untrusted import Unread, guarded
from corral.vendors.vendor import PlacedPart, ShareLayer, Vendor

MOST_DEVICES = 256
WHOLE_UNITS = 100
"""The units of compute of a whole device."""


@dataclass(frozen=True, slots=True)
class SharedDevice:
    """A device whose parts are given. `uuid`, `memory_mib` and `model` are None if they are unknown."""

    uuid: str | None = None
    memory_mib: int | None = None
    model: str | None = None
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class ServedShares:
    """The devices of a node, and the software that gives their parts; `vendor` made them.

    Attributes:
        sick: how many devices are unhealthy, if it is unknown which.
        by_uuid: whether a container may also take a device by its UUID, because Corral alone gives them out.
    """

    layer: ShareLayer
    vendor: Vendor
    devices: tuple[SharedDevice, ...]
    sick: int = 0
    by_uuid: bool = False

    @property
    def offered_as(self) -> tuple[str, ...]:
        """The resources by which pods get the devices."""
        names = (self.layer.count, self.layer.known_by, BY_UUID if self.by_uuid else None)
        return tuple(dict.fromkeys(name for name in names if name is not None))


def served_shares(facts: NodeFacts, catalogue: Catalogue | None = None) -> ServedShares | None:
    """Return the devices with parts of a node; None if it has none, or several would give them out."""
    found = _all_served(facts, catalogue)
    return found[0] if len(found) == 1 and not _whole_beside(facts, found[0]) else None


def contested(facts: NodeFacts) -> tuple[str, ...]:
    """Return the resources by which a node offers its devices, if there is more than one way; () if there is not."""
    found = _all_served(facts, None)
    names = [one.layer.known_by for one in found]
    if found and all(_whole_beside(facts, one) for one in found):
        names += sorted(name for name in facts.allocatable.others if name in _whole_resources(found))
    return tuple(names) if len(names) > 1 else ()


def _whole_resources(found: list[ServedShares]) -> set[str]:
    return {one.vendor.kubernetes.gpu for one in found}


def _all_served(facts: NodeFacts, catalogue: Catalogue | None) -> list[ServedShares]:
    found = []
    for layer, vendor in share_layers():
        served = _by_core(facts, layer, vendor, catalogue) if layer.by_core else _registered(facts, layer, vendor)
        if served is not None:
            found.append(served)
    return found


def _whole_beside(facts: NodeFacts, served: ServedShares) -> bool:
    """Return whether another plugin offers whole devices of the node."""
    return served.layer.count not in facts.allocatable.others and gpus_of(facts.allocatable) > 0


def _by_core(facts: NodeFacts, layer: ShareLayer, vendor: Vendor, catalogue: Catalogue | None) -> ServedShares | None:
    units = max(facts.capacity.of(layer.core), facts.allocatable.of(layer.core))
    count = min(units // WHOLE_UNITS, MOST_DEVICES)
    if count == 0:
        return None
    healthy = min(count, facts.allocatable.of(layer.core) // WHOLE_UNITS)
    of_memory = max(facts.capacity.of(layer.memory), facts.allocatable.of(layer.memory))
    memory_mib = of_memory * unit_of(layer.memory, catalogue) // count or None
    return ServedShares(layer, vendor, (SharedDevice(None, memory_mib),) * count, sick=count - healthy)


def _registered(facts: NodeFacts, layer: ShareLayer, vendor: Vendor) -> ServedShares | None:
    if layer.count is None or not facts.allocatable.of(layer.count):
        return None
    read = partial(layer.registered, facts.annotations)
    registered = guarded(f"the GPUs that node {facts.name} has registered for {layer.name}", read)
    if registered is None or isinstance(registered, Unread):
        return None
    devices = tuple(SharedDevice(one.uuid, one.memory_mib, one.model, one.healthy) for one in registered)
    return ServedShares(layer, vendor, devices)


def limits_of(served: ServedShares, parts: Sequence[PlacedPart], catalogue: Catalogue | None = None) -> dict[str, int]:
    """Return the amounts by which a container asks for these devices, all of them whole or parts of one size."""
    layer, first = served.layer, parts[0]
    is_part = first.share_milli < MILLI_PER_DEVICE
    units = first.share_milli * WHOLE_UNITS // MILLI_PER_DEVICE
    if layer.count is None:
        amounts = {layer.core: units * len(parts)}
    else:
        amounts = {layer.count: len(parts)} | ({layer.core: units} if is_part else {})
    if is_part and first.memory_mib:
        amounts[layer.memory] = max(1, first.memory_mib // unit_of(layer.memory, catalogue))
    return amounts
