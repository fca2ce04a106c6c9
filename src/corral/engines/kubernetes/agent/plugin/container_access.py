"""The access of a container to its devices, and to these alone."""

import os
from dataclasses import dataclass
from pathlib import Path

from corral.core.model.devices.device import Device
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.engines.kubernetes.agent.kubelet_api.allocations import ContainerAccess, Mount
from corral.engines.kubernetes.agent.plugin.offers import MILLI_PER_UNIT, Offer, units_by_device
from corral.engines.kubernetes.agent.plugin.plugin_core import GivenToContainer
from corral.host.sharing.host_drivers import HostDrivers
from corral.vendors.registry import vendor_of


@dataclass(frozen=True, slots=True)
class AccessMaker:
    """Makes what containers get. `drivers` are the means of sharing on this host; `dev` is where its devices are."""

    drivers: HostDrivers
    dev: Path = Path("/dev")

    def access(self, offer: Offer, given: GivenToContainer) -> ContainerAccess:
        """Return the access of the container to its devices.

        A shared device is prepared, which may start a daemon. Raises Refused or BackendFailed if it cannot be.
        """
        wanted = units_by_device(given.device_ids)
        devices = [offer.by_uuid[uuid].device for uuid in wanted]
        vendor = vendor_of(devices[0])
        name = vendor.kubernetes.variable
        variables = {} if name is None else {name: ",".join(device.uuid for device in devices)}
        files = (*vendor.files.of_all, *(file for device in devices for file in device.files))
        mounts: tuple[Mount, ...] = ()
        shared = [device for device in devices if offer.units > 1 and wanted[device.uuid] < offer.units]
        for device in shared:
            set_up, mounts = self._shared(device, given, wanted[device.uuid] * MILLI_PER_UNIT)
            variables |= set_up
        return ContainerAccess(variables, mounts, tuple(dict.fromkeys(file for file in files if self._is_there(file))))

    def prepare(self, device: Device) -> None:
        """Containers have parts of a device: what they need runs from now on. Raises BackendFailed."""
        self.drivers.of(device, MILLI_PER_UNIT).prepare(device)

    def release(self, device: Device) -> None:
        """The last container with a part of a device has ended. Raises BackendFailed."""
        self.drivers.of(device, MILLI_PER_UNIT).release(device)

    def _shared(
        self, device: Device, given: GivenToContainer, share_milli: int
    ) -> tuple[dict[str, str], tuple[Mount, ...]]:
        driver = self.drivers.of(device, share_milli)
        driver.prepare(device)
        tenant = Tenant(given.pod_uid, given.pod_uid, Grant(device.uuid, share_milli, given.memory_mib))
        variables = dict(driver.environment(device, tenant))
        share = vendor_of(device).kubernetes.pod_share(driver.means, variables)
        mounts = (
            *(Mount(path, path) for path in share.paths),
            *(Mount(path, path, read_only=True) for path in share.read_only),
        )
        return dict(share.variables), mounts

    def _is_there(self, file: str) -> bool:
        return os.path.exists(self.dev / file.removeprefix("/dev/"))
