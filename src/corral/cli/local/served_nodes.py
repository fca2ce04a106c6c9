"""The nodes of the server that answers, as settings are checked against them."""

from corral.client import Client
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.devices.device import Device, Node


def served_nodes(client: Client) -> list[Node]:
    """Its nodes with their devices; of one that never answered the name alone. Raises CorralError."""
    devices: dict[str, list[Device]] = {row.name: [] for row in client.nodes.list()}
    for row in client.devices.list():
        devices.setdefault(row.node or "", []).append(_device(row))
    return [Node(name, tuple(found), 0, 0) for name, found in sorted(devices.items())]


def _device(row: DeviceRow) -> Device:
    major, _, minor = (row.compute_capability or "").partition(".")
    capability = (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
    return Device(row.uuid, row.index or 0, row.name, row.memory_total_mib, capability, parent_uuid=row.parent)
