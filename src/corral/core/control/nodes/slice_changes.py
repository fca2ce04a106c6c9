"""Cuts devices into slices and removes slices: each call returns a plan, and carries it out if the site allows
it.
"""

from corral.core.access.caller import Caller
from corral.core.access.permissions import must_be_admin
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.querying.queries import Queries
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import Device
from corral.core.model.errors import NotFound, Refused
from corral.core.ports.ledger import Ledger
from corral.core.ports.node import HostAccess, SliceChange

MAX_SLICES = 100


class SliceChanges:
    """Changes slices, for administrators. A plan is always returned; the device's node decides whether it is
    carried out.
    """

    def __init__(self, ledger: Ledger, nodes: Nodes, queries: Queries) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._queries = queries

    def cut(self, device: str, profile: str, count: int, caller: Caller, *, apply: bool) -> SlicePlan:
        """Cut `count` more slices of a profile from a device (by UUID or index). Return the plan, and whether it was
        carried out.

        Raises Refused if the device has no room for them, Forbidden, and BackendFailed if the vendor's tool fails.
        """
        must_be_admin(caller, "cutting slices")
        if not 1 <= count <= MAX_SLICES:
            raise Refused(f"count: {count} is not a number of slices; give 1 to {MAX_SLICES}", field="count")
        host, found = self._device(device)
        return host.change_slices(found.uuid, SliceChange(profile, count, apply=apply))

    def give_up(self, device: str, caller: Caller, *, apply: bool) -> SlicePlan:
        """Remove all slices of a device; no job may hold one. Return the plan, and whether it was carried out."""
        must_be_admin(caller, "giving slices up")
        host, found = self._device(device)
        holders = self._ledger.view().holders
        in_use = any(part.uuid in holders for part in found.partitions)
        return host.change_slices(found.uuid, SliceChange(in_use=in_use, apply=apply))

    def _device(self, named: str) -> tuple[HostAccess, Device]:
        """Return the physical device of this name, or the parent of the slice of this name, and the host that it
        is in.
        """
        uuid = self._queries.uuid_of(named)
        for node in self._ledger.view().nodes.values():
            for device in node.devices:
                if device.uuid == uuid:
                    whole = (one for one in node.devices if one.uuid == device.parent_uuid)
                    host = self._nodes.agent(node.name).host
                    if host is None:
                        raise Refused(f"the slices of node {node.name} cannot be changed: only its cluster is asked")
                    return host, next(whole, device)
        raise NotFound(f"there is no device {named} any more", field="device")
