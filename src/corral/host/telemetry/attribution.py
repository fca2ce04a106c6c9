"""Finds the origin of a process on a device: the user, the command, the container and the job."""

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from corral.clock import Clock
from corral.core.model.devices.device import SERVICE, ContainerOfOthers, DeviceProcess, DeviceSample
from corral.core.model.runs.launch import Origin
from corral.host.telemetry.process_memory import MemoryReader, OwnWords
from corral.host.telemetry.processes import PROC, read_stat, real_uid
from corral.unix_peer import user_name
from corral.untrusted import Unread, guarded

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CACHED_PROCESSES = 1024
_MAX_ANCESTORS = 1024
"""The most ancestors that are followed. Only a process that hides something has more."""
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
_OF_USERS = "user.slice"
"""The cgroup below which users may create cgroups, and name them like the container of another user."""

NameContainer = Callable[[str], ContainerOfOthers | None]
"""Returns the name of a container by its id, None if it is not known yet. Never waits."""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """The host's data about a process, without a read of its memory. `name` is the kernel's short name."""

    uid: int | None
    user: str | None
    name: str | None
    started_at: float
    cgroup: str | None
    unified_cgroup: str | None
    container: str | None


class Attribution:
    """Adds the data of the host and of Corral to the processes on devices.

    A process belongs to the job that it descends from, whatever its environment says; otherwise to the job in whose
    cgroup it is. These checks do not read the memory of the process, because the process can prevent that. The mark in
    its own or an ancestor's environment (CORRAL_JOB_ID with CORRAL_HOME naming this server's `home`) can be set by
    anybody. It is accepted only for a process of the job's own user, and only if the job has no living supervisor: all
    its processes would be below that. `origins` returns the jobs, and the services that work for several jobs. A pid
    that the host does not know (it belongs to another container) keeps only the driver's data. For a process without a
    job, `container_named` returns the name of its container.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        origins: Callable[[], Sequence[Origin]] = tuple,
        home: str | None = None,
        container_named: NameContainer = lambda _: None,
    ) -> None:
        self._clock = clock
        self._origins = origins
        self._container_named = container_named
        self._facts: dict[tuple[int, int], ProcessFacts] = {}
        self._start_ticks: dict[int, int] = {}
        self._memory = MemoryReader(home)
        self._words: dict[tuple[int, int], OwnWords] = {}

    def attribute(self, samples: Sequence[DeviceSample]) -> tuple[DeviceSample, ...]:
        """Return the samples with completed processes. A process that was known here and has ended is left out."""
        if not any(sample.processes for sample in samples):
            return tuple(samples)
        jobs = _Jobs(self._origins())
        return tuple(
            replace(sample, processes=self._join_all(sample.processes, jobs)) if sample.processes else sample
            for sample in samples
        )

    def job_of(self, pid: int) -> str | None:
        """Return the job of a process that runs now, None if it has none."""
        found = self._joined(DeviceProcess(pid), _Jobs(self._origins()))
        return None if found is None or found.job_id == SERVICE else found.job_id

    def _join_all(self, processes: Sequence[DeviceProcess], jobs: "_Jobs") -> tuple[DeviceProcess, ...]:
        joined = (self._joined(process, jobs) for process in processes)
        return tuple(process for process in joined if process is not None)

    def _joined(self, process: DeviceProcess, jobs: "_Jobs") -> DeviceProcess | None:
        """Return the process with its data; unchanged if the data cannot be parsed, which its user can cause."""
        found = guarded(f"what the host knows of process {process.pid}", partial(self._join, process, jobs))
        return process if isinstance(found, Unread) else found

    def _join(self, process: DeviceProcess, jobs: "_Jobs") -> DeviceProcess | None:
        line = _line_of_descent(process.pid)
        facts = self._facts_of(*line[0]) if line else None
        if facts is None:
            return None if process.pid in self._start_ticks else process
        if process.user is not None and process.user != facts.user:
            # A mock describes a process that is not the host's process with that pid.
            return process
        job_id = jobs.of_line(line) or jobs.of_cgroup(facts.unified_cgroup) or self._marked_job(line, jobs)
        words = self._words_of(*line[0], facts.uid)
        return replace(
            process,
            user=facts.user,
            command=(None if words is None else words.command) or facts.name,
            started_at=facts.started_at,
            cgroup=facts.cgroup,
            container=facts.container,
            job_id=job_id,
            runs_in=self._container_of(facts) if job_id is None else None,
        )

    def _container_of(self, facts: ProcessFacts) -> ContainerOfOthers | None:
        if facts.container is None or _OF_USERS in (facts.cgroup or "").split("/"):
            return None
        return self._container_named(facts.container)

    def _marked_job(self, line: Sequence[tuple[int, int]], jobs: "_Jobs") -> str | None:
        for member in line:
            facts = self._facts_of(*member)
            words = None if facts is None else self._words_of(*member, facts.uid)
            if facts is not None and words is not None and jobs.may_bear_mark(facts.uid, words.marked_job):
                return words.marked_job
        return None

    def _facts_of(self, pid: int, start_ticks: int) -> ProcessFacts | None:
        key = (pid, start_ticks)
        facts = self._facts.get(key)
        if facts is None:
            uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            started_at = self._clock.now() - uptime_s + start_ticks / _TICKS_PER_S
            facts = _read_facts(pid, started_at)
            if not _is_still(pid, start_ticks):
                return None
            if len(self._facts) >= _CACHED_PROCESSES:
                self._facts.clear()
                self._words.clear()
                self._start_ticks.clear()
            self._facts[key] = facts
        self._start_ticks[pid] = start_ticks
        return facts

    def _words_of(self, pid: int, start_ticks: int, uid: int | None) -> OwnWords | None:
        """Return the process's own words, None if they cannot be read, or not yet."""
        words = self._words.get((pid, start_ticks))
        if words is None:
            words = self._memory.words_of(pid, start_ticks, uid)
            if words is None or not _is_still(pid, start_ticks):
                return None
            self._words[pid, start_ticks] = words
        return words


class _Jobs:
    """Assigns processes to jobs by data that cannot be forged. If two jobs claim the same, the first wins."""

    def __init__(self, origins: Sequence[Origin]) -> None:
        self._by_root: dict[tuple[int, int], str] = {}
        self._by_cgroup: dict[str, str] = {}
        self._by_id: dict[str, Origin] = {}
        for origin in origins:
            lineage = origin.lineage
            if lineage.root is not None:
                self._by_root.setdefault((lineage.root.pid, lineage.root.start_ticks), origin.job_id)
            if lineage.cgroup is not None:
                self._by_cgroup.setdefault(lineage.cgroup, origin.job_id)
            self._by_id.setdefault(origin.job_id, origin)

    def of_line(self, line: Sequence[tuple[int, int]]) -> str | None:
        """Return the nearest job that the process descends from; otherwise SERVICE if it descends from a service,
        or None.
        """
        found = [self._by_root[member] for member in line if member in self._by_root]
        return next((job for job in found if job != SERVICE), SERVICE if found else None)

    def of_cgroup(self, path: str | None) -> str | None:
        """Return the job whose cgroup contains the process, directly or below."""
        while path:
            if path in self._by_cgroup:
                return self._by_cgroup[path]
            path = path.rpartition("/")[0]
        return None

    def may_bear_mark(self, uid: int | None, marked_job: str | None) -> bool:
        """Return whether the mark of a user's process that descends from no job may be true."""
        origin = self._by_id.get(marked_job or "")
        if origin is None or origin.uid is None or origin.uid != uid:
            return False
        root = origin.lineage.root
        if root is None or not origin.lineage.adopts:
            return True
        stat = read_stat(root.pid)
        return stat is None or stat.dead or stat.start_ticks != root.start_ticks


def _line_of_descent(pid: int) -> list[tuple[int, int]]:
    """Return the process and its ancestors without init, each as (pid, start ticks); empty if the process does not
    exist.
    """
    line: list[tuple[int, int]] = []
    stat = read_stat(pid)
    if stat is None or stat.dead:
        return line
    while pid > 1 and len(line) < _MAX_ANCESTORS:
        line.append((pid, stat.start_ticks))
        parent = read_stat(stat.parent_pid)
        if parent is None or parent.start_ticks > stat.start_ticks:
            # The parent has ended, and its pid is unused or belongs to a younger process.
            break
        pid, stat = stat.parent_pid, parent
    return line


def _is_still(pid: int, start_ticks: int) -> bool:
    """Return whether the pid still belongs to this process and was not reused."""
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == start_ticks


def _read_facts(pid: int, started_at: float) -> ProcessFacts:
    uid = real_uid(pid)
    # Each line is HIERARCHY:CONTROLLERS:PATH; hierarchy 0 is the unified one.
    cgroups = [line.split(":", 2) for line in _read(pid, "cgroup").splitlines() if line.count(":") >= 2]
    cgroup = cgroups[0][2] if cgroups else None
    return ProcessFacts(
        uid=uid,
        user=None if uid is None else user_name(uid),
        name=_read(pid, "comm").strip() or None,
        started_at=started_at,
        cgroup=cgroup,
        unified_cgroup=next((path for number, _, path in cgroups if number == "0"), None),
        container=container_in(cgroup or ""),
    )


def container_in(cgroup: str) -> str | None:
    """Return the id of the innermost container in a cgroup's path (Docker, containerd, Podman and CRI-O: 64 hex
    digits).
    """
    ids: list[str] = _CONTAINER_ID.findall(cgroup)
    return ids[-1] if ids else None


def _read(pid: int, name: str) -> str:
    """Return a file of /proc/PID, "" if it cannot be read: the process may be gone, or belong to another user."""
    try:
        return (PROC / str(pid) / name).read_text(errors="replace")
    except OSError:
        return ""
