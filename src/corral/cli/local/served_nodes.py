"""The nodes of the running server, in the form that checks of settings need."""

from corral.client import Client
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.devices.device import Device, Node


def served_nodes(client: Client) -> list[Node]:
    """The server's nodes with their devices. A node that never answered has no devices. Raises CorralError."""
    devices: dict[str, list[Device]] = {row.name: [] for row in client.nodes.list()}
    for row in client.devices.list():
        devices.setdefault(row.node or "", []).append(_device(row))
    return [Node(name, tuple(found), 0, 0) for name, found in sorted(devices.items())]


def _device(row: DeviceRow) -> Device:
    major, _, minor = (row.compute_capability or "").partition(".")
    capability = (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
    return Device(row.uuid, row.index or 0, row.name, row.memory_total_mib, capability, parent_uuid=row.parent)
