"""The allocation map: how much of each device is allocated to which jobs, and whether resource files agree."""

from corral.core.access.caller import Caller
from corral.core.access.permissions import must_be_admin
from corral.core.control.launching.attempts import Attempts
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.answers.devices import HolderRow, MappedDevice
from corral.core.model.devices.device import Device
from corral.core.model.errors import NotFound, nearest
from corral.core.model.runs.launch import without_script
from corral.core.ports.ledger import Ledger
from corral.core.sharing.alloc_map import AllocatedDevice, alloc_map, allocated_device


class AllocationMap:
    """The allocations by node. A node is an agent in Backend.ai's terms."""

    def __init__(self, ledger: Ledger, nodes: Nodes, attempts: Attempts) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._attempts = attempts

    def nodes(self) -> tuple[str, ...]:
        """The nodes by name."""
        return tuple(sorted(self._ledger.view().nodes))

    def counts(self) -> tuple[tuple[str, int], ...]:
        """Return the number of devices of each node, by name."""
        nodes = self._ledger.view().nodes
        return tuple((name, len(nodes[name].devices)) for name in sorted(nodes))

    def alloc_map(self, node: str) -> dict[str, str]:
        """Return the allocated part of each device of a node, as "0.80". Devices without jobs are left out. Raises
        NotFound.
        """
        self._known(node)
        return alloc_map(self._ledger.view(), node)

    def devices(self, node: str, *, offset: int = 0, limit: int | None = None) -> tuple[AllocatedDevice, ...]:
        """Return the devices of a node in index order, free devices included, with their jobs. Raises NotFound."""
        self._known(node)
        view = self._ledger.view()
        devices = sorted(view.nodes[node].devices, key=lambda device: (device.index, device.uuid))
        end = None if limit is None else offset + limit
        return tuple(allocated_device(view, device.uuid) for device in devices[offset:end])

    def rows(self) -> list[MappedDevice]:
        """Return every device with its jobs, as `corral alloc-map` shows it."""
        nodes = self._ledger.view().nodes
        return [
            _row(name, device, allocated)
            for name in self.nodes()
            for device, allocated in zip(
                sorted(nodes[name].devices, key=lambda device: (device.index, device.uuid)),
                self.devices(name),
                strict=True,
            )
        ]

    def rescan(self, node: str, caller: Caller) -> tuple[str, ...]:
        """Correct resource files that differ from the ledger. For administrators.

        Raises NotFound, Forbidden, and BackendFailed if the node cannot correct them.
        """
        must_be_admin(caller, "scanning the resource files again")
        self._known(node)
        host = self._nodes.agent(node).host
        if host is None:
            return ()
        return host.rescan(tuple(without_script(launch) for _, launch in self._attempts.on(node)))

    def _known(self, node: str) -> None:
        names = self.nodes()
        if node not in names:
            raise NotFound(f"there is no node {node}; {nearest(node, names)}", field="agent_id")


def _row(node: str, device: Device, allocated: AllocatedDevice) -> MappedDevice:
    return MappedDevice(
        uuid=device.uuid,
        index=device.index,
        name=device.model,
        node=node,
        means=device.means.value,
        allocated_milli=allocated.allocated_milli,
        jobs=tuple(HolderRow(job.job_id, job.user, job.share_milli, job.memory_mib) for job in allocated.jobs),
        mig_profile=device.mig_profile,
        held_as=device.held_by(max((job.share_milli for job in allocated.jobs), default=0)).value,
    )
