"""The drivers of all means of sharing on a host, of all vendors, with a site's settings."""

from collections.abc import Mapping
from dataclasses import dataclass

from corral.config import Settings
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import ClientLimits
from corral.core.sharing.arrange import Arrangement
from corral.vendors.registry import vendors
from corral.vendors.sharing_driver import SharingDriver
from corral.vendors.vendor import Clients, DaemonWatch, Host, HostSharing, Lost


@dataclass(frozen=True, slots=True)
class HostDrivers:
    """The means of sharing on this host, by the name of the vendor."""

    by_vendor: Mapping[str, HostSharing]

    def of(self, device: Device, share_milli: int) -> SharingDriver:
        """Return the driver for a job with this share of a device."""
        return self._sharing(device).drivers[device.held_by(share_milli)]

    def unfit(self, node: Node, device: Device) -> str | None:
        """Return why jobs cannot share a daemon on the device here; None if they can."""
        return self._sharing(device).unfit(node, device)

    def unhooked(self, device: Device) -> str | None:
        """Return why no library limits jobs on the device here; None if one does."""
        return self._sharing(device).unhooked(device)

    def one_user(self, device: Device) -> bool:
        """Return whether a daemon serves one Unix user at a time on the device."""
        return self._sharing(device).one_user(device)

    def client_limits(self, device: Device) -> ClientLimits:
        """Return the limits that a daemon sets to the clients of the device."""
        return self._sharing(device).client_limits(device)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons why devices are not shared as the site asks."""
        return tuple(warning for one in self.by_vendor.values() for warning in one.warnings)

    def daemons(self) -> tuple[int, ...]:
        """Return the pids of the running daemons."""
        return tuple(pid for one in self.by_vendor.values() for pid in one.daemons())

    def watches(self, clients: Clients, lost: Lost) -> tuple[DaemonWatch, ...]:
        """Return the watches of the daemons, not started yet."""
        watches = (one.watch(_only(name, clients), lost) for name, one in self.by_vendor.items())
        return tuple(watch for watch in watches if watch is not None)

    def _sharing(self, device: Device) -> HostSharing:
        return self.by_vendor.get(device.vendor) or next(iter(self.by_vendor.values()))


def arranged_by(settings: Settings, drivers: HostDrivers) -> Arrangement:
    """Return the site's rules for sharing the devices of this host."""
    return Arrangement(
        settings.sharing,
        settings.vgpu,
        one_user=drivers.one_user,
        clients=drivers.client_limits,
        unfit=drivers.unfit,
        unhooked=drivers.unhooked,
    )


def host_drivers(host: Host) -> HostDrivers:
    """Return the drivers for a host's devices, of every vendor: their vendors are not known yet."""
    return HostDrivers({name: vendor.share(host) for name, vendor in vendors().items()})


def _only(name: str, clients: Clients) -> Clients:
    return lambda: {uuid: client for uuid, client in clients().items() if client[0].vendor == name}
