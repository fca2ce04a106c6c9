"""Which node of a server this host is: known by its boot, as processes are, and by its GPUs where nodes share one.

A name says little: a node may be called otherwise than its host, and another machine as this one.
"""

import os
import platform
from collections.abc import Callable, Sequence, Set

from corral.client import Client, DeviceRow
from corral.clock import known_boot_id
from corral.model.answers.site import NodeRow
from corral.model.errors import Refused


def node_here(client: Client, uuids_here: Callable[[], Set[str]]) -> str | None:
    """The server's node that this host is, None where it is none of them.

    `uuids_here` is as for `nodes_here`; it is asked also where several nodes are on this host. Raises Refused where
    the node cannot be told.
    """
    nodes = nodes_here(client, uuids_here)
    return _one_of(nodes, client.devices.list(), uuids_here()) if len(nodes) > 1 else next(iter(nodes), None)


def nodes_here(client: Client, uuids_here: Callable[[], Set[str]]) -> list[str]:
    """The server's nodes that are on this host.

    `uuids_here` tells the GPUs that the driver shows this process; it is asked where a boot is not known: a node of an
    older version does not tell its own, and a container may not show that of this host.
    """
    nodes, boot = client.nodes.list(), known_boot_id()
    of_this_boot = [node.name for node in nodes if boot is not None and node.boot_id == boot]
    untold = [node for node in nodes if boot is None or node.boot_id is None]
    if of_this_boot or not untold:
        return of_this_boot
    one = _untold(untold, client, uuids_here)
    return [] if one is None else [one]


def _one_of(nodes: Sequence[str], devices: Sequence[DeviceRow], uuids: Set[str]) -> str:
    """Of several nodes on this host the one whose GPUs are here, or whose job this process is of."""
    holding = _holding(devices, uuids)
    meant = [node for node in nodes if node in holding]
    if len(meant) != 1 and os.environ.get("CORRAL_JOB_ID"):
        meant = [node for node in nodes if node == os.environ.get("CORRAL_NODE")]
    if len(meant) == 1:
        return meant[0]
    shown = f"GPUs of {', '.join(meant)}" if meant else "none of their GPUs"
    raise Refused(
        f"which GPUs are meant cannot be told: {', '.join(nodes)} are {len(nodes)} nodes of the server on this one "
        f"host, and the driver shows {shown} here; run this in a job on the node that is meant "
        f"(corral run --node {nodes[0]} ...)",
        field="node",
    )


def _untold(nodes: Sequence[NodeRow], client: Client, uuids_here: Callable[[], Set[str]]) -> str | None:
    """Of nodes whose boot says nothing here the one whose GPUs are here, else the one called as this host."""
    names = {node.name for node in nodes}
    holding = sorted(_holding(client.devices.list(), uuids_here()) & names)
    if len(holding) == 1:
        return holding[0]
    return platform.node() if platform.node() in names else None


def _holding(devices: Sequence[DeviceRow], uuids: Set[str]) -> set[str]:
    """The nodes that have one of these GPUs, whole or in slices."""
    return {device.node for device in devices if device.node is not None and uuids & {device.uuid, device.parent}}
