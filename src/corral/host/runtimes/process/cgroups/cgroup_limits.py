"""A job's limits on the host's CPUs and memory, enforced by the kernel in a cgroup of the job.

If the unified hierarchy has the controller, the cgroup is that by which the job is killed. Otherwise it is a group in
the controller's own (v1) hierarchy. If neither is writable, the limits are not enforced.
"""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from corral.host.runtimes.process.cgroups import cgroup
from corral.host.runtimes.process.procfs import read_file

PERIOD_US = 100_000
"""The period of the CPU limit; the kernel's own default."""

LEAST_QUOTA_US = 1_000
"""The least quota in one period that the kernel accepts."""


@dataclass(frozen=True, slots=True)
class CgroupController:
    """A controller's files: the file that identifies it, and the values to write; the last file may be missing."""

    name: str
    unified: bool
    limit: str
    also: tuple[tuple[str, str], ...] = ()


_CPU = (CgroupController("cpu", True, "cpu.max"), CgroupController("cpu", False, "cpu.cfs_quota_us"))
# A job is ended rather than swapped out, and all of it at once if the kernel can do that.
_MEMORY = (
    CgroupController("memory", True, "memory.max", (("memory.swap.max", "0"), ("memory.oom.group", "1"))),
    CgroupController("memory", False, "memory.limit_in_bytes", (("memory.memsw.limit_in_bytes", "{limit}"),)),
)


@dataclass(frozen=True, slots=True)
class _Keeper:
    """A controller, and the group in which the groups of jobs are created."""

    controller: CgroupController
    base: str

    def hold(self, group: str, limit: str) -> None:
        directory = f"{self.base}/{group}"
        cgroup.create(directory)
        cgroup.write(f"{directory}/{self.controller.limit}", limit.encode())
        for name, text in self.controller.also:
            with contextlib.suppress(FileNotFoundError):
                cgroup.write(f"{directory}/{name}", text.format(limit=limit).encode())


class CgroupLimits:
    """The cgroup controllers of this machine that can limit the CPUs and the memory of jobs."""

    def __init__(self, name: str, unified_base: str | None, root: str = "") -> None:
        self._cpu = _keeper(_CPU, name, unified_base, root)
        self._memory = _keeper(_MEMORY, name, unified_base, root)

    @property
    def holds_cpus(self) -> bool:
        return self._cpu is not None

    @property
    def holds_memory(self) -> bool:
        return self._memory is not None

    def prepare(self, group: str, cpu_milli: int, memory_mib: int) -> list[str]:
        """Create the groups that limit a job to these amounts (0: no limit), and return their paths. Raises OSError."""
        made: dict[str, None] = {}
        try:
            if cpu_milli and self._cpu:
                made[f"{self._cpu.base}/{group}"] = None
                self._cpu.hold(group, _cpu_text(cpu_milli, self._cpu.controller))
            if memory_mib and self._memory:
                made[f"{self._memory.base}/{group}"] = None
                self._memory.hold(group, str(memory_mib * 1024 * 1024))
        except OSError:
            self.discard(group)
            raise
        return list(made)

    def discard(self, group: str) -> None:
        """Remove the groups of a job of which nothing runs."""
        for base in self._bases():
            cgroup.remove(f"{base}/{group}")

    def keep(self, groups: Iterable[str]) -> None:
        """Remove the empty groups of jobs that are not in `groups`: their launches are over."""
        kept = set(groups)
        for base in self._bases():
            cgroup.keep(base, kept)

    def close(self) -> None:
        """Remove the groups in which the groups of jobs were created. A group stays while a job is inside."""
        for base in self._bases():
            with contextlib.suppress(OSError):
                os.rmdir(base)

    def _bases(self) -> list[str]:
        return list(dict.fromkeys(keeper.base for keeper in (self._cpu, self._memory) if keeper))


def _cpu_text(cpu_milli: int, controller: CgroupController) -> str:
    quota_us = max(LEAST_QUOTA_US, cpu_milli * PERIOD_US // 1000)
    return f"{quota_us} {PERIOD_US}" if controller.unified else str(quota_us)


def _keeper(
    controllers: tuple[CgroupController, ...], name: str, unified_base: str | None, root: str
) -> _Keeper | None:
    for controller in controllers:
        if controller.unified:
            if unified_base and _hands_down(os.path.dirname(unified_base), unified_base, controller.name):
                return _Keeper(controller, unified_base)
            continue
        for place in cgroup.places(controller.name, root):
            base = f"{place}/{name}"
            with contextlib.suppress(OSError):
                cgroup.create(base)
            if os.access(f"{base}/{controller.limit}", os.W_OK):
                return _Keeper(controller, base)
    return None


def _hands_down(parent: str, base: str, controller: str) -> bool:
    """Enable a controller for the groups below `base`. False if the kernel refuses, as for a group with processes."""
    try:
        if not _has(base, controller):
            cgroup.write(f"{parent}/cgroup.subtree_control", f"+{controller}".encode())
        cgroup.write(f"{base}/cgroup.subtree_control", f"+{controller}".encode())
        return _has(base, controller)
    except OSError:
        return False


def _has(group: str, controller: str) -> bool:
    return controller.encode() in read_file(f"{group}/cgroup.controllers").split()
