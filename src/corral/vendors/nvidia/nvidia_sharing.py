"""The means of sharing NVIDIA's devices on a host: whole, by time slices, by MIG slices, by MPS and by a hook."""

from collections.abc import Mapping

from corral.config import Settings
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import ClientLimits, Means
from corral.vendors.nvidia.compute_mode import OneProcess, process_mode_missing
from corral.vendors.nvidia.hook import Hook, hook_missing
from corral.vendors.nvidia.mps import Mps, MpsWatch
from corral.vendors.nvidia.mps_daemon import multi_user_missing
from corral.vendors.sharing_driver import SharingDriver
from corral.vendors.sharing_without_setup import Exclusive, Slices, Timeslice
from corral.vendors.vendor import Clients, Host, Lost


class NvidiaSharing:
    """Implements `corral.vendors.vendor.HostSharing`, with the daemons of MPS under the server's home."""

    def __init__(self, host: Host) -> None:
        settings = host.settings
        self._library = settings.hook
        self._mps_asked = any(means is Means.MPS for _, means in settings.sharing)
        multi_user = settings.mps_multi_user and multi_user_missing(settings.mps_control) is None
        self._mps = Mps(
            host.home,
            control=settings.mps_control,
            multi_user=multi_user,
            slots=settings.mps_slots,
            leavable=process_mode_missing(described=host.described, by_root=host.by_root),
        )
        mode_warning = process_mode_warning(settings, described=host.described, by_root=host.by_root)
        process_mode = settings.exclusive_process_mode and mode_warning is None
        self.warnings = tuple(filter(None, (mps_warning(settings), mode_warning)))
        self.drivers: Mapping[Means, SharingDriver] = {
            Means.EXCLUSIVE: OneProcess() if process_mode else Exclusive(),
            Means.TIMESLICE: Timeslice(),
            Means.MIG: Slices(_not_in_mig_mode),
            Means.MPS: self._mps,
            Means.HOOK: Hook(settings.hook, host.home),
        }

    def unfit(self, node: Node, device: Device) -> str | None:
        return self._mps.unfit(node, device)

    def unhooked(self, device: Device) -> str | None:
        return hook_missing(self._library)

    def one_user(self, device: Device) -> bool:
        return self._mps.one_user(device)

    def client_limits(self, device: Device) -> ClientLimits:
        return self._mps.client_limits(device)

    def daemons(self) -> tuple[int, ...]:
        return self._mps.daemons()

    def watch(self, clients: Clients, lost: Lost) -> MpsWatch | None:
        return MpsWatch(self._mps, clients, lost) if self._mps_asked else None


def mps_warning(settings: Settings) -> str | None:
    """The reason why MPS devices serve one user at a time although the site allows several; None if there is none."""
    if not settings.mps_multi_user or all(means is not Means.MPS for _, means in settings.sharing):
        return None
    missing = multi_user_missing(settings.mps_control)
    return None if missing is None else f"mps_multi_user: {missing}; one user at a time is served on an MPS device"


def process_mode_warning(settings: Settings, *, described: bool, by_root: bool) -> str | None:
    """The reason why whole devices lack the process mode that the site asks for; None if they have it."""
    if not settings.exclusive_process_mode:
        return None
    missing = process_mode_missing(described=described, by_root=by_root)
    if missing is None:
        return None
    return (
        f"exclusive_process_mode: {missing}; devices are allocated whole without it, to one job and all its processes"
    )


def _not_in_mig_mode(device: Device) -> str:
    turn_on = f"nvidia-smi -i {device.uuid} -mig 1"
    return f"{device.uuid} is not in MIG mode; an administrator turns it on with {turn_on}"
