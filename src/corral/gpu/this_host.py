"""Finds the server's node for this host: by its boot id, and by its GPUs if nodes share a host.

Names do not suffice: a node's name may differ from its host's, and another machine may have this one's name.
"""

import os
import platform
from collections.abc import Callable, Sequence, Set

from corral.client import Client, DeviceRow
from corral.clock import known_boot_id
from corral.core.model.answers.site import NodeRow
from corral.core.model.errors import Refused


def node_here(client: Client, uuids_here: Callable[[], Set[str]]) -> str | None:
    """Return the name of the server's node on this host, or None.

    `uuids_here` is as for `nodes_here`; it is also called if several nodes are on this host. Raises Refused if the node
    cannot be determined.
    """
    nodes = nodes_here(client, uuids_here)
    return _one_of(nodes, client.devices.list(), uuids_here()) if len(nodes) > 1 else next(iter(nodes), None)


def nodes_here(client: Client, uuids_here: Callable[[], Set[str]]) -> list[str]:
    """Return the names of the server's nodes on this host.

    `uuids_here` returns the GPUs that the driver shows this process. It is called if a boot id is unknown: a node of an
    older version has none, and a container may not show that of this host.
    """
    nodes, boot = client.nodes.list(), known_boot_id()
    of_this_boot = [node.name for node in nodes if boot is not None and node.boot_id == boot]
    untold = [node for node in nodes if boot is None or node.boot_id is None]
    if of_this_boot or not untold:
        return of_this_boot
    one = _untold(untold, client, uuids_here)
    return [] if one is None else [one]


def _one_of(nodes: Sequence[str], devices: Sequence[DeviceRow], uuids: Set[str]) -> str:
    """Of several nodes on this host return the one with the GPUs here, or the one that runs this process's job."""
    holding = _holding(devices, uuids)
    meant = [node for node in nodes if node in holding]
    if len(meant) != 1 and os.environ.get("CORRAL_JOB_ID"):
        meant = [node for node in nodes if node == os.environ.get("CORRAL_NODE")]
    if len(meant) == 1:
        return meant[0]
    shown = f"GPUs of {', '.join(meant)}" if meant else "none of their GPUs"
    raise Refused(
        f"the intended GPUs are unknown: {', '.join(nodes)} are {len(nodes)} nodes of the server on this one "
        f"host, and the driver shows {shown} here; run this in a job on the node that is meant "
        f"(corral run --node {nodes[0]} ...)",
        field="node",
    )


def _untold(nodes: Sequence[NodeRow], client: Client, uuids_here: Callable[[], Set[str]]) -> str | None:
    """Of nodes with an unknown boot id return the one with the GPUs here, else the one with this host's name."""
    names = {node.name for node in nodes}
    holding = sorted(_holding(client.devices.list(), uuids_here()) & names)
    if len(holding) == 1:
        return holding[0]
    return platform.node() if platform.node() in names else None


def _holding(devices: Sequence[DeviceRow], uuids: Set[str]) -> set[str]:
    """Return the nodes that have one of these GPUs, whole or in slices."""
    return {device.node for device in devices if device.node is not None and uuids & {device.uuid, device.parent}}
