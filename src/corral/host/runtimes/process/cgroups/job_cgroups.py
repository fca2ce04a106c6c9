"""The cgroups of this server's jobs: one by which a job is killed, those that enforce its limits and its fence."""

import contextlib
import os
from collections.abc import Sequence

from corral.core.model.devices.means import HostMeans, Level
from corral.host.runtimes.process.cgroups import cgroup
from corral.host.runtimes.process.cgroups.cgroup_limits import CgroupLimits
from corral.host.runtimes.process.cgroups.device_fence import DeviceFence, Numbers
from corral.host.runtimes.process.cgroups.fences_below import FencesBelow
from corral.host.runtimes.process.procfs import LocalProcess


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
        self._fence = DeviceFence()
        self._below: FencesBelow | None = None

    def start(self, kept: Sequence[str]) -> None:
        """Find out which cgroups this machine allows, and remove those of all launches except `kept`."""
        self.base = cgroup.make_base(self._name, self._root)
        self._shown = self.base and cgroup.shown(self.base)
        self.limits = CgroupLimits(self._name, self.base, self._root)
        self.limits.keep(kept)
        self._fence.find(self._name, self.base, self._root)
        self._fence.keep(kept)
        if self._fence.missing is None:
            self._below = FencesBelow(self._name, by_program=self._fence.by_program, root=self._root)
        if self.base:
            cgroup.keep(self.base, kept)

    def close(self) -> None:
        """Remove the server's own groups; each stays while a job is inside."""
        if self.limits:
            self.limits.close()
        self._fence.close()
        if self._below:
            self._below.close()
        if self.base:
            with contextlib.suppress(OSError):
                os.rmdir(self.base)

    @property
    def host_means(self) -> HostMeans:
        """The levels at which jobs' limits on CPUs and host memory are enforced, and why jobs are not fenced."""
        if self.limits is None:
            return HostMeans(unfenced=self._fence.missing)
        levels = {True: Level.ENFORCED, False: Level.ADVISORY}
        return HostMeans(levels[self.limits.holds_cpus], levels[self.limits.holds_memory], self._fence.missing)

    def prepare(self, launch_id: str, cpu_milli: int, memory_mib: int, closed: Sequence[Numbers] = ()) -> list[str]:
        """Create the cgroups that limit a job to these CPUs and this memory (0: no limit), and keep it from devices.

        Return the paths of the groups that the job must enter. Raises OSError.
        """
        fence = self._fence.prepare(launch_id, closed)
        if self.limits is None or not (cpu_milli or memory_mib):
            return fence
        try:
            return fence + self.limits.prepare(launch_id, cpu_milli, memory_mib)
        except OSError:
            self._fence.discard(launch_id)
            raise

    def closed_by_program(self, closed: Sequence[Numbers]) -> list[int] | None:
        """Return what the supervisor has to close by a program, None if nothing: as in `Orders`."""
        return [number for numbers in closed for number in numbers] if self._fence.by_program and closed else None

    def fence_below(self, process: LocalProcess, closed: Sequence[Numbers]) -> bool:
        """Close devices to a process of no launch. Return whether only root can undo it. Raises OSError."""
        if self._below is None or not closed:
            raise OSError(self._fence.missing or "the device file of a GPU is not known")
        return self._below.move(process, closed)

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
        self._fence.discard(launch_id)
        if self.base:
            cgroup.remove(f"{self.base}/{launch_id}")
