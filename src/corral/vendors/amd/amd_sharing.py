"""The means of sharing AMD's devices on a host: whole, by time slices, or by compute partitions, without a daemon."""

from collections.abc import Mapping

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import ClientLimits, Means
from corral.vendors.sharing_driver import SharingDriver
from corral.vendors.sharing_without_setup import Exclusive, Slices, Timeslice
from corral.vendors.vendor import Clients, DaemonWatch, Lost


class AmdSharing:
    """Implements `corral.vendors.vendor.HostSharing`."""

    warnings: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.drivers: Mapping[Means, SharingDriver] = {
            Means.EXCLUSIVE: Exclusive(),
            Means.TIMESLICE: Timeslice(),
            Means.MIG: Slices(_not_partitioned),
        }

    def unfit(self, node: Node, device: Device) -> str | None:
        return f"AMD has no MPS, and {device.uuid} is AMD's; use --share timeslice"

    def unhooked(self, device: Device) -> str | None:
        return f"there is no library that limits jobs on {device.uuid}, which is AMD's"

    def one_user(self, device: Device) -> bool:
        return False

    def client_limits(self, device: Device) -> ClientLimits:
        return ClientLimits()

    def daemons(self) -> tuple[int, ...]:
        return ()

    def watch(self, clients: Clients, lost: Lost) -> DaemonWatch | None:
        return None


def _not_partitioned(device: Device) -> str:
    return (
        f"{device.uuid} is not cut into compute partitions; an administrator does it with "
        "amd-smi set --gpu INDEX --compute-partition CPX"
    )
