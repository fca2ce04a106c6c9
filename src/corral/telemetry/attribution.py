"""Who is behind a process on a device: the user, the command, the container and the job."""

import os
import pwd
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from corral.clock import Clock
from corral.model.device import DeviceProcess, DeviceSample
from corral.telemetry.processes import PROC, read_stat, real_uid

SERVICE = "mps"
"""What Corral runs for all jobs on a device (the daemon they meet in) is marked with this in place of a job's id."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_COMMAND_CHARS = 256
_CACHED_PROCESSES = 1024
_MAX_ANCESTORS = 64
_OWNERS_AGE_S = 5.0
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What the host knows of a process. `marked_job` is the job that the process's environment names."""

    user: str | None
    command: str | None
    started_at: float
    cgroup: str | None
    container: str | None
    marked_job: str | None


class Attribution:
    """Joins the processes on devices to what the host and Corral know of them.

    A process belongs to a job when it or one of its ancestors carries the mark that Corral puts into a job's
    environment, CORRAL_JOB_ID with CORRAL_HOME naming this server's `home`, or when `owners` says so of one of them.
    A pid that the host does not know (it lives in another container) keeps only what the driver said.
    """

    def __init__(
        self, clock: Clock, *, owners: Callable[[], Mapping[int, str]] = dict, home: str | None = None
    ) -> None:
        self._clock = clock
        self._owners = owners
        self._home = home
        self._facts: dict[tuple[int, int], ProcessFacts] = {}
        self._start_ticks: dict[int, int] = {}
        self._told_owners: Mapping[int, str] = {}
        self._owners_wanted = False
        self._owners_asked_at: float | None = None
        self._adopted: frozenset[str] = frozenset()

    def learn_owners(self, adopted: Collection[str] = ()) -> None:
        """Ask `owners`, if there was a process without a mark since, and not again for a few seconds.

        `adopted` are the allocations of processes that were not started with a mark: when they are others than before,
        it is asked at once, so that nobody is told of a stranger who is a job by now.

        Apart from `attribute` because `owners` may have to walk all processes of the host, which takes its time.
        """
        now = self._clock.monotonic()
        known = self._owners_asked_at is not None and now - self._owners_asked_at < _OWNERS_AGE_S
        if self._owners_wanted and not (known and frozenset(adopted) == self._adopted):
            self._owners_wanted, self._owners_asked_at, self._adopted = False, now, frozenset(adopted)
            self._told_owners = self._owners()

    def attribute(self, samples: Sequence[DeviceSample]) -> tuple[DeviceSample, ...]:
        """The samples with their processes joined; a process that was known here and has ended is left out."""
        if not any(sample.processes for sample in samples):
            return tuple(samples)
        return tuple(
            replace(sample, processes=self._join_all(sample.processes)) if sample.processes else sample
            for sample in samples
        )

    def _join_all(self, processes: Sequence[DeviceProcess]) -> tuple[DeviceProcess, ...]:
        joined = (self._join(process) for process in processes)
        return tuple(process for process in joined if process is not None)

    def _join(self, process: DeviceProcess) -> DeviceProcess | None:
        facts = self._facts_of(process.pid)
        if facts is None:
            return None if process.pid in self._start_ticks else process
        if process.user is not None and process.user != facts.user:
            # A mock describes a process that is not the host's process of that number.
            return process
        return replace(
            process,
            user=facts.user,
            command=facts.command,
            started_at=facts.started_at,
            cgroup=facts.cgroup,
            container=facts.container,
            job_id=self._job_of(process.pid),
        )

    def _job_of(self, pid: int) -> str | None:
        line = list(_line_of_descent(pid))
        for ancestor in line:
            facts = self._facts_of(ancestor)
            if facts is not None and facts.marked_job is not None:
                return facts.marked_job
        self._owners_wanted = True
        return next((self._told_owners[ancestor] for ancestor in line if ancestor in self._told_owners), None)

    def _facts_of(self, pid: int) -> ProcessFacts | None:
        stat = read_stat(pid)
        if stat is None or stat.dead:
            return None
        key = (pid, stat.start_ticks)
        facts = self._facts.get(key)
        if facts is None:
            if len(self._facts) >= _CACHED_PROCESSES:
                self._facts.clear()
                self._start_ticks.clear()
            uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            started_at = self._clock.now() - uptime_s + stat.start_ticks / _TICKS_PER_S
            facts = self._facts[key] = _read_facts(pid, started_at, self._home)
        self._start_ticks[pid] = stat.start_ticks
        return facts


def _line_of_descent(pid: int) -> Iterator[int]:
    """The process, its parent, and so on, up to but without init."""
    for _ in range(_MAX_ANCESTORS):
        if pid <= 1:
            return
        yield pid
        stat = read_stat(pid)
        if stat is None:
            return
        pid = stat.parent_pid


def _read_facts(pid: int, started_at: float, home: str | None) -> ProcessFacts:
    uid = real_uid(pid)
    command = _read(pid, "cmdline").replace("\0", " ").strip() or _read(pid, "comm").strip()
    cgroup = next((line.split(":", 2)[2] for line in _read(pid, "cgroup").splitlines() if line.count(":") >= 2), None)
    return ProcessFacts(
        user=None if uid is None else _user_name(uid),
        command=command[:_COMMAND_CHARS] or None,
        started_at=started_at,
        cgroup=cgroup,
        container=container_in(cgroup or ""),
        marked_job=_marked_job(_read(pid, "environ"), home),
    )


def container_in(cgroup: str) -> str | None:
    """The id of the innermost container in a cgroup's path (Docker, containerd, Podman and CRI-O: 64 hex digits)."""
    ids: list[str] = _CONTAINER_ID.findall(cgroup)
    return ids[-1] if ids else None


def _marked_job(environ: str, home: str | None) -> str | None:
    variables = dict(entry.split("=", 1) for entry in environ.split("\0") if "=" in entry)
    if home is not None and variables.get("CORRAL_HOME") != home:
        return None
    return variables.get("CORRAL_JOB_ID") or None


def _read(pid: int, name: str) -> str:
    """A file of /proc/PID, "" when it can't be read: the process may be gone, or another user's."""
    try:
        return (PROC / str(pid) / name).read_text(errors="replace")
    except OSError:
        return ""


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
