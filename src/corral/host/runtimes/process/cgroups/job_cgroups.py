"""The cgroups of this server's jobs: one by which a job is killed, and those that enforce its limits on the host."""

import contextlib
import os
from collections.abc import Sequence

from corral.core.model.devices.means import HostMeans, Level
from corral.host.runtimes.process.cgroups import cgroup
from corral.host.runtimes.process.cgroups.cgroup_limits import CgroupLimits


class JobCgroups:
    """One cgroup per job, below one of the server's own, if this machine allows that; none before `start`.

    Attributes:
        base: the directory of the groups by which jobs are killed; None if there can be none.
    """

    def __init__(self, name: str, root: str = "") -> None:
        self._name = name
        self._root = root
        self.base: str | None = None
        self._shown: str | None = None
        self.limits: CgroupLimits | None = None

    def start(self, kept: Sequence[str]) -> None:
        """Find out which cgroups this machine allows, and remove those of all launches except `kept`."""
        self.base = cgroup.make_base(self._name, self._root)
        self._shown = self.base and cgroup.shown(self.base)
        self.limits = CgroupLimits(self._name, self.base, self._root)
        self.limits.keep(kept)
        if self.base:
            cgroup.keep(self.base, kept)

    def close(self) -> None:
        """Remove the server's own groups; each stays while a job is inside."""
        if self.limits:
            self.limits.close()
        if self.base:
            with contextlib.suppress(OSError):
                os.rmdir(self.base)

    @property
    def host_means(self) -> HostMeans:
        """The levels at which jobs' limits on CPUs and host memory are enforced."""
        if self.limits is None:
            return HostMeans()
        levels = {True: Level.ENFORCED, False: Level.ADVISORY}
        return HostMeans(levels[self.limits.holds_cpus], levels[self.limits.holds_memory])

    def prepare(self, launch_id: str, cpu_milli: int, memory_mib: int) -> list[str]:
        """Create the cgroups that limit a job to these CPUs and this memory (0: no limit), and return their paths.
        Raises OSError.
        """
        if self.limits is None or not (cpu_milli or memory_mib):
            return []
        return self.limits.prepare(launch_id, cpu_milli, memory_mib)

    def path(self, launch_id: str) -> str | None:
        """Return the path of the cgroup by which a new launch of this id will be killed; None if there are no
        cgroups.
        """
        return f"{self.base}/{launch_id}" if self.base else None

    def shown(self, launch_id: str) -> str | None:
        """Return the cgroup by which a launch is killed, as /proc/PID/cgroup names it; None if there are no cgroups."""
        return f"{self._shown}/{launch_id}" if self._shown else None

    def is_path_of(self, path: object, launch_id: str) -> bool:
        """Return whether `path` is the cgroup by which this launch is killed, even below the base of an earlier
        server.
        """
        return cgroup.is_place_of(path, self._name, launch_id, self._root)

    def remove(self, launch_id: str) -> None:
        """Remove every group of a launch of which nothing runs."""
        if self.limits:
            self.limits.discard(launch_id)
        if self.base:
            cgroup.remove(f"{self.base}/{launch_id}")
