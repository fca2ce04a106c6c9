"""The part of this host's resources that the site offers."""

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path

from corral.clock import boot_id
from corral.config import Settings
from corral.config.settings import Numa
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import HostMeans
from corral.host.node.power_limits import PowerLimits
from corral.host.sharing.host_drivers import HostDrivers, arranged_by
from corral.host.telemetry.host import numa_cpus

log = logging.getLogger(__name__)

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Inventory:
    """Turns a node as found into the node that jobs run on.

    Attributes:
        drivers: the drivers that share its devices.
        host_means: the levels at which limits on CPUs and memory are enforced here, and why jobs are not fenced.
        scratch: the directory of jobs' scratch files.
        name: the node's name; None keeps the name as found.
        power: the power limits that jobs have set here.
        fixed_power: why jobs cannot set power limits here; None if they can.
    """

    settings: Settings
    drivers: HostDrivers
    host_means: HostMeans
    scratch: Path
    name: str | None
    power: PowerLimits
    fixed_power: str | None

    def of(self, found: Node) -> Node:
        """Return the node with its name, the means of its devices, and their slices as devices. Refusals of means are
        logged.
        """
        arrangement = arranged_by(self.settings, self.drivers)
        for why in arrangement.refusals(found):
            log.warning("%s", why)
        arranged = arrangement.node(found)
        return replace(
            arranged,
            devices=tuple(map(self._with_power, arranged.devices)),
            name=self.name or found.name,
            host_means=replace(self.host_means, unfenced=self.host_means.unfenced or _unknown_file(arranged)),
            disk_mib=found.disk_mib or _size_mib(self.scratch),
            numa_cpus=numa_cpus() if self.settings.numa is Numa.BIND else (),
            boot_id=boot_id(),
        )

    def _with_power(self, device: Device) -> Device:
        """Return the device with the power limit that it has without a job, and why jobs cannot set it."""
        before_mw = self.power.before_mw(device.uuid)
        limit_mw = device.power_limit_mw if before_mw is None else before_mw
        fixed = None if device.power_range_mw is None else self.fixed_power
        return replace(device, power_limit_mw=limit_mw, power_fixed=fixed)


def _unknown_file(node: Node) -> str | None:
    """Return the reason why the devices of this node cannot be told apart; None if they can."""
    unknown = [device.uuid for device in node.devices if not device.files]
    return f"the device file of {unknown[0]} is not known" if unknown else None


def _size_mib(directory: Path) -> int:
    """Return the size in MiB of the file system of a directory, or 0 if it is unknown."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return 0
    return status.f_blocks * status.f_frsize // _MIB
