"""The part of this host's resources that the site offers."""

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path

from corral.clock import boot_id
from corral.config import Settings
from corral.config.settings import Numa
from corral.core.model.devices.device import Node
from corral.core.model.devices.means import HostMeans
from corral.core.sharing.arrange import Arrangement
from corral.host.sharing.host_drivers import HostDrivers
from corral.host.telemetry.host import numa_cpus

log = logging.getLogger(__name__)

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Inventory:
    """Turns a node as found into the node that jobs run on.

    Attributes:
        drivers: the drivers that share its devices.
        host_means: the levels at which limits on CPUs and memory are enforced here.
        scratch: the directory of jobs' scratch files.
        name: the node's name; None keeps the name as found.
    """

    settings: Settings
    drivers: HostDrivers
    host_means: HostMeans
    scratch: Path
    name: str | None

    def of(self, found: Node) -> Node:
        """Return the node with its name, the means of its devices, and their slices as devices. Refusals of means are
        logged.
        """
        arrangement = Arrangement(
            self.settings.sharing, self.settings.vgpu, one_user=self.drivers.one_user, unfit=self.drivers.unfit
        )
        for why in arrangement.refusals(found):
            log.warning("%s", why)
        return replace(
            arrangement.node(found),
            name=self.name or found.name,
            host_means=self.host_means,
            disk_mib=found.disk_mib or _size_mib(self.scratch),
            numa_cpus=numa_cpus() if self.settings.numa is Numa.BIND else (),
            boot_id=boot_id(),
        )


def _size_mib(directory: Path) -> int:
    """Return the size in MiB of the file system of a directory, or 0 if it is unknown."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return 0
    return status.f_blocks * status.f_frsize // _MIB
