"""Files of jobs in the scratch directories of this host: their resource files, while they run, and all the rest.

Each job's `resource.txt` lists its resources here, for tools that read these files. The ledger is authoritative; files
that differ from it are written again.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum
from functools import partial
from pathlib import Path

from corral.core.model.errors import CorralError
from corral.core.model.jobs.checkpoints import IN_SCRATCH
from corral.core.model.jobs.script_copy import kept_text
from corral.core.model.runs.launch import Launch
from corral.core.sharing.alloc_map import disagreements
from corral.core.sharing.resource_txt import ResourceFile, mount_entry, resource_file
from corral.host.sharing.scratch import (
    drop,
    kept,
    kernel_of,
    left,
    mark_kept,
    put,
    put_back,
    remove,
    scan,
    set_aside,
    tell_stop,
    unmark_kept,
)

log = logging.getLogger(__name__)


class StopBy(StrEnum):
    """The cause of a stop, in the words of `corral.checkpoint`."""

    TIME_LIMIT = "limit"
    EVICTION = "preempted"


class ResourceFiles:
    """The scratch directories of one home. Safe from any thread."""

    def __init__(self, scratch: Path, checkpoint_keep_s: float) -> None:
        """`checkpoint_keep_s` is the time for which checkpoints are kept after the end of a job."""
        self._scratch = scratch
        self._checkpoint_keep_s = checkpoint_keep_s
        self._evicted: set[str] = set()
        self._looked_at: float | None = None
        self._by_root = os.geteuid() == 0
        self._placing = threading.Lock()
        self._launches: dict[str, dict[str, Launch]] = {}
        """Launches by job id, then by launch id. The members of a gang on one node share a directory."""

    def write(self, launch: Launch) -> None:
        """Add this launch's resources to the job's file, beside other members of the job. Raises BackendFailed."""
        with self._placing:
            members = self._launches.setdefault(launch.job.id, {})
            unmark_kept(self._scratch, launch.job.id)
            members[launch.id] = launch
            self._put(members, kept_text(launch.job.spec.env))

    def note_stop(self, job_id: str, left_s: float | None, by: StopBy) -> None:
        """Write in how many seconds the job is stopped, by the clock of the boot, which the job's programs have too.

        None is never. An eviction, once it was written, stays. Errors are logged: the job is stopped all the same.
        """
        with self._placing:
            if job_id not in self._launches or (by is StopBy.TIME_LIMIT and job_id in self._evicted):
                return
            at_s = None if left_s is None else time.clock_gettime(time.CLOCK_BOOTTIME) + left_s
            _attempt(partial(tell_stop, self._scratch, job_id, None if at_s is None else f"{at_s:.3f} {by}\n"))
            if by is StopBy.EVICTION:
                self._evicted.add(job_id)

    def drop(self, launch_id: str, job_id: str) -> None:
        """Remove a launch that is over; the file goes with the last member. Errors are logged, and `compare` corrects
        the file later.
        """
        with self._placing:
            members = self._launches.get(job_id, {})
            members.pop(launch_id, None)
            if members:
                _attempt(partial(self._put, members))
            else:
                self._launches.pop(job_id, None)
                self._evicted.discard(job_id)
                _attempt(partial(drop, self._scratch, job_id))

    def tidy(self, job_id: str, *, keep_checkpoints: bool = False) -> None:
        """Remove the job's files, unless it was launched again. Its checkpoints may stay. Raises BackendFailed."""
        keep = keep_checkpoints and self._checkpoint_keep_s > 0
        with self._placing:
            if job_id in self._launches:
                return
            if keep:
                # The mark comes first: if this process ends here, the next finds what to keep, and until when.
                mark_kept(self._scratch, job_id)
            aside = set_aside(self._scratch, job_id)
            if not (keep and aside is not None and put_back(self._scratch, aside, job_id, IN_SCRATCH)):
                unmark_kept(self._scratch, job_id)
        if aside is not None:
            remove(self._scratch, aside)

    def remove_expired(self, *, every_s: float = 0.0) -> None:
        """Remove the checkpoints that were kept for long enough, at most `every_s` seconds after the last time.

        Raises BackendFailed.
        """
        now = time.monotonic()
        if self._looked_at is not None and now - self._looked_at < every_s:
            return
        self._looked_at = now
        for job_id, ago_s in kept(self._scratch).items():
            if ago_s > self._checkpoint_keep_s:
                self.tidy(job_id)

    def restore(self, launches: Collection[Launch]) -> tuple[str, ...]:
        """Replace the known launches by these, and correct the files. Return the differences, a sentence each."""
        with self._placing:
            self._launches = {}
            self._evicted = set()
        return self.compare(launches)

    def compare(self, launches: Collection[Launch]) -> tuple[str, ...]:
        """Compare the files with these launches and later ones. Return the differences, a sentence each.

        Files that are missing or differ are written again, those of jobs that are over are removed.
        """
        with self._placing:
            for launch in launches:
                self._launches.setdefault(launch.job.id, {})[launch.id] = launch
            found = scan(self._scratch) if self._scratch.is_dir() else None
            files = {} if found is None else dict(found.files)
            differences = [] if found is None else [str(bad) for bad in found.bad]
            granted = {job_id: _granted(members.values()) for job_id, members in self._launches.items()}
            differences += disagreements(granted, files)
            for job_id in sorted(files.keys() - self._launches.keys()):
                _attempt(partial(drop, self._scratch, job_id))
            for job_id, members in sorted(self._launches.items()):
                file = files.get(job_id)
                if file is None or file.allocated_milli(with_slices=True) != granted[job_id]:
                    _attempt(partial(self._put, members))
        return tuple(differences)

    def leftovers(self, waiting: Collection[str]) -> list[Callable[[], object]]:
        """Return the steps that remove the files of jobs that are over; `waiting` are jobs that are to run again."""
        kernels, aside = left(self._scratch)
        ended = kept(self._scratch)
        interrupted = [name for name in aside if (job := kernel_of(name)) in ended and job not in kernels]
        with self._placing:
            over = [job for job in kernels if job not in self._launches and job not in waiting and job not in ended]
        return [
            # How these jobs have ended is not known here.
            *(partial(self.tidy, job_id, keep_checkpoints=True) for job_id in over),
            *(partial(put_back, self._scratch, name, kernel_of(name), IN_SCRATCH) for name in interrupted),
            self.remove_expired,
            *(partial(remove, self._scratch, name) for name in aside),
        ]

    def _put(self, members: dict[str, Launch], script: str | None = None) -> None:
        launches = sorted(members.values(), key=lambda launch: launch.rank)
        spec = launches[0].job.spec
        owned = self._by_root and spec.uid is not None and spec.gid is not None
        owner = (spec.uid or 0, spec.gid or 0) if owned else None
        put(self._scratch, launches[0].job.id, _file_of(launches), owner, script)


def _file_of(launches: list[Launch]) -> ResourceFile:
    spec = launches[0].job.spec
    volumes = () if spec.container is None else spec.container.volumes
    entries = [mount_entry(one.source, one.target, read_only=one.read_only) for one in volumes]
    return resource_file(
        [use.newcomer.grant for launch in launches for use in launch.uses],
        cpu_milli=sum(launch.cpu_milli for launch in launches),
        host_memory_mib=sum(launch.host_memory_mib for launch in launches),
        mig_profile=spec.request.mig_profile,
        mounts=tuple(entry for entry in entries if entry is not None),
        scratch_mib=spec.request.disk_mib * len(launches),
    )


def _granted(launches: Iterable[Launch]) -> dict[str, int]:
    granted: dict[str, int] = {}
    for launch in launches:
        for use in launch.uses:
            grant = use.newcomer.grant
            granted[grant.uuid] = granted.get(grant.uuid, 0) + grant.share_milli
    return granted


def _attempt(step: Callable[[], None]) -> None:
    try:
        step()
    except CorralError as error:
        log.warning("%s", error)
