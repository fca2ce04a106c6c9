"""The devices that belong to each pool, by the site's description of each pool."""

from collections.abc import Collection, Iterator, Mapping
from math import floor

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.model_and_profile_match import model_matches
from corral.core.model.queues.queue import Pool

SetApart = Mapping[str, Mapping[str, tuple[str, ...]]]
"""UUIDs of devices, by pool and node. Nodes without a device of the pool are absent."""

_ALL = "*"
_ROUNDING = 1e-9
"""A correction for floating point: 0.29 of 100 GPUs are 28.999999999999996 there, and 29 for a person."""


def set_apart(
    pools: Mapping[str, Pool],
    nodes: Mapping[str, Node],
    before: SetApart | None = None,
    *,
    changed: Collection[str] = (),
) -> SetApart:
    """The devices of each pool. `before` is the result before `changed` nodes came, changed or left; None computes all.

    A pool that has a part of all GPUs gets it from the GPUs that no other pool names. The part is cut node by node, in
    the order of the nodes' names. So a node that joins brings its own share, and the others keep theirs except for
    rounding.
    """
    names = nodes if before is None else changed
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for pool in pools.values():
        if pool.part is None:
            here = found[pool.name] = {} if before is None else dict(before.get(pool.name, {}))
            for name in names:
                here[name] = _named(pool.gpus, nodes[name]) if name in nodes else ()
                if not here[name]:
                    del here[name]
    for pool in pools.values():
        if pool.part is not None:
            taken = list(found.values())
            found[pool.name] = dict(_shares(pool.part, nodes, taken))
    return found


def matches(gpu: str, node: str, device: Device, parent: Device | None) -> bool:
    """Whether a pool's word for a GPU means this device: a UUID, NODE:INDEX, NODE:*, a model, or an index alone.

    A word that means a device also means its slices. An index alone means the GPU of that index on each node.
    """
    return any(_means(gpu, node, one) for one in (device, parent) if one is not None)


def is_index(gpu: str) -> bool:
    """Whether a pool's word for a GPU is an index alone, without a node."""
    return gpu.isascii() and gpu.isdigit()


def parents(node: Node) -> dict[str, Device]:
    """The physical devices of a node by UUID. Other devices of the node may be slices of them."""
    return {device.uuid: device for device in node.devices if device.parent_uuid is None}


def _means(gpu: str, node: str, device: Device) -> bool:
    host, colon, which = gpu.rpartition(":")
    if gpu == device.uuid or (colon and host == node and which in (_ALL, str(device.index))):
        return True
    if is_index(gpu):
        return gpu == str(device.index)
    return not colon and model_matches((gpu,), device.model)


def _named(gpus: tuple[str, ...], node: Node) -> tuple[str, ...]:
    whole = parents(node)
    return tuple(
        device.uuid
        for device in node.devices
        if any(matches(gpu, node.name, device, whole.get(device.parent_uuid or "")) for gpu in gpus)
    )


def _shares(
    part: float, nodes: Mapping[str, Node], taken: list[dict[str, tuple[str, ...]]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The devices that a pool gets from each node, so that up to each node the sum is that part of all GPUs."""
    seen = cut = 0
    for name in sorted(nodes):
        devices = sorted(nodes[name].devices, key=lambda device: (device.index, device.uuid))
        others = {uuid for pool in taken for uuid in pool.get(name, ())}
        whole = [device.uuid for device in devices if device.parent_uuid is None]
        seen += len(whole)
        wanted = floor(seen * part + _ROUNDING) - cut
        own = [uuid for uuid in whole if uuid not in others][:wanted]
        cut += len(own)
        if own:
            yield name, tuple(one.uuid for one in devices if one.uuid in own or one.parent_uuid in own)
