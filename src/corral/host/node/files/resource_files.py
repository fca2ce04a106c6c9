"""Files of jobs in the scratch directories of this host: their resource files, while they run, and all the rest.

Each job's `resource.txt` lists its resources here, for tools that read these files. The ledger is authoritative; files
that differ from it are written again.
"""

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path

from corral.core.model.errors import CorralError
from corral.core.model.jobs.script_copy import kept_text
from corral.core.model.runs.launch import Launch
from corral.core.sharing.alloc_map import disagreements
from corral.core.sharing.resource_txt import ResourceFile, mount_entry, resource_file
from corral.host.sharing.scratch import drop, left, put, remove, scan, set_aside

log = logging.getLogger(__name__)


class ResourceFiles:
    """The scratch directories of one home. Safe from any thread."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._by_root = os.geteuid() == 0
        self._placing = threading.Lock()
        self._launches: dict[str, dict[str, Launch]] = {}
        """Launches by job id, then by launch id. The members of a gang on one node share a directory."""

    def write(self, launch: Launch) -> None:
        """Add this launch's resources to the job's file, beside other members of the job. Raises BackendFailed."""
        with self._placing:
            members = self._launches.setdefault(launch.job.id, {})
            members[launch.id] = launch
            self._put(members, kept_text(launch.job.spec.env))

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
                _attempt(partial(drop, self._scratch, job_id))

    def tidy(self, job_id: str) -> None:
        """Remove the job's files, unless it was launched again. Raises BackendFailed."""
        with self._placing:
            aside = None if job_id in self._launches else set_aside(self._scratch, job_id)
        if aside is not None:
            remove(self._scratch, aside)

    def restore(self, launches: Collection[Launch]) -> tuple[str, ...]:
        """Replace the known launches by these, and correct the files. Return the differences, a sentence each."""
        with self._placing:
            self._launches = {}
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

    def leftovers(self, kept: Collection[str]) -> list[Callable[[], None]]:
        """Return the steps that remove the files of jobs that are over; `kept` are jobs that are to run again."""
        kernels, aside = left(self._scratch)
        with self._placing:
            over = [job_id for job_id in kernels if job_id not in self._launches and job_id not in kept]
        return [
            *(partial(self.tidy, job_id) for job_id in over),
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
