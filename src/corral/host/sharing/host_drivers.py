"""The drivers of all means of sharing on a host, of all vendors, with a site's settings."""

from collections.abc import Mapping
from dataclasses import dataclass

from corral.core.model.devices.device import Device, Node
from corral.vendors.registry import vendors
from corral.vendors.sharing_driver import SharingDriver
from corral.vendors.vendor import Clients, DaemonWatch, Host, HostSharing, Lost


@dataclass(frozen=True, slots=True)
class HostDrivers:
    """How devices are shared here, by the name of their vendor."""

    by_vendor: Mapping[str, HostSharing]

    def of(self, device: Device, share_milli: int) -> SharingDriver:
        """The driver by which a job has so much of a device."""
        return self._sharing(device).drivers[device.held_by(share_milli)]

    def unfit(self, node: Node, device: Device) -> str | None:
        """Why jobs cannot meet in a daemon on the device here; None when they can."""
        return self._sharing(device).unfit(node, device)

    def one_user(self, device: Device) -> bool:
        """Whether a daemon serves one Unix user at a time on the device."""
        return self._sharing(device).one_user(device)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why devices are not shared quite as the site asks."""
        return tuple(warning for one in self.by_vendor.values() for warning in one.warnings)

    def daemons(self) -> tuple[int, ...]:
        """The pids of the daemons that run now."""
        return tuple(pid for one in self.by_vendor.values() for pid in one.daemons())

    def watches(self, clients: Clients, lost: Lost) -> tuple[DaemonWatch, ...]:
        """What looks after the daemons, not started yet."""
        watches = (one.watch(_only(name, clients), lost) for name, one in self.by_vendor.items())
        return tuple(watch for watch in watches if watch is not None)

    def _sharing(self, device: Device) -> HostSharing:
        return self.by_vendor.get(device.vendor) or next(iter(self.by_vendor.values()))


def host_drivers(host: Host) -> HostDrivers:
    """The drivers of a host's devices, whichever vendors these turn out to be of."""
    return HostDrivers({name: vendor.share(host) for name, vendor in vendors().items()})


def _only(name: str, clients: Clients) -> Clients:
    return lambda: {uuid: client for uuid, client in clients().items() if client[0].vendor == name}
