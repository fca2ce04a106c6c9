"""What the site offers of what was found on this host."""

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path

from corral.clock import boot_id
from corral.config import Settings
from corral.config.settings import Numa
from corral.model.device import Node
from corral.model.means import HostMeans
from corral.sharing.arrange import Arrangement
from corral.sharing.host_drivers import HostDrivers
from corral.telemetry.host import numa_cpus

log = logging.getLogger(__name__)

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Inventory:
    """Makes of a node as it was found the one that jobs run on.

    Attributes:
        drivers: how its devices are shared.
        host_means: who holds jobs to their CPUs and memory here.
        scratch: where jobs leave their files.
        name: what the node is called, None being as it was found.
    """

    settings: Settings
    drivers: HostDrivers
    host_means: HostMeans
    scratch: Path
    name: str | None

    def of(self, found: Node) -> Node:
        """The node with its name, the means of its devices, and their slices as devices; refusals are logged."""
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
    """The size of the file system that a directory is on, 0 where it cannot be told."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return 0
    return status.f_blocks * status.f_frsize // _MIB
