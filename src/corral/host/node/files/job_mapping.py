"""Files that tell a site's own dcgm-exporter which jobs are on which GPU, for its `--hpc-job-mapping-dir`.

Each device with jobs has a file named by its index, with the ids of these jobs, one a line. The file of a free device
is removed, because some versions of dcgm-exporter leave out a GPU whose file is empty. Jobs on a slice are listed for
the whole device: the exporter knows a slice by a number that Corral does not read.
"""

import contextlib
import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from corral.core.model.printable import printable
from corral.core.model.runs.launch import Launch

log = logging.getLogger(__name__)

_INDEX = re.compile(r"\d{1,6}", re.ASCII)
_JOB_IDS = re.compile(rb"(\d{1,20}(_\d{1,20})?\n)*")
_MOST_BYTES = 1024 * 1024
_DRAFT = ".corral-draft"
"""A draft's name is no number, so the exporter ignores it."""


class JobMapping:
    """The files in one directory, which is made if it is missing; with None there are no files.

    A directory that others can write to, and a symbolic link to a directory, are refused. The obstacle is logged once
    and keeps no job from starting. Files of another form are left as they are. Safe from any thread.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._launches: dict[str, Launch] = {}
        self._trouble = ""

    def restore(self, launches: Collection[Launch]) -> None:
        """Replace the known launches by these, and update all files."""
        with self._lock:
            self._launches = {launch.id: launch for launch in launches}
            self._attempt(self._write_all)

    def add(self, launch: Launch) -> None:
        """Add a launch that has its devices from now on."""
        with self._lock:
            self._launches[launch.id] = launch
            self._attempt(lambda fd: self._write(fd, _indices(launch)))

    def drop(self, launch_id: str) -> None:
        """Remove a launch that no longer has its devices."""
        with self._lock:
            launch = self._launches.pop(launch_id, None)
            if launch is not None:
                self._attempt(lambda fd: self._write(fd, _indices(launch)))

    def _attempt(self, step: Callable[[int], None]) -> None:
        if self._directory is None:
            return
        trouble = ""
        try:
            with _opened(self._directory) as fd:
                step(fd)
        except (OSError, ValueError) as error:
            # ValueError: no file can have such a name.
            why = getattr(error, "strerror", None) or error
            trouble = f"jobs are not listed in {printable(str(self._directory))} (job_mapping_dir): {why}"
        if trouble and trouble != self._trouble:
            log.warning("%s", trouble)
        self._trouble = trouble

    def _write_all(self, fd: int) -> None:
        held = {index for launch in self._launches.values() for index in _indices(launch)}
        stale = {int(name) for name in os.listdir(fd) if _INDEX.fullmatch(name) and _is_ours(fd, name)}
        self._write(fd, held | stale)

    def _write(self, fd: int, indices: Collection[int]) -> None:
        for index in sorted(indices):
            there = dict.fromkeys(launch.job.id for launch in self._launches.values() if index in _indices(launch))
            if there:
                _put(fd, str(index), "".join(f"{job_id}\n" for job_id in there))
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(str(index), dir_fd=fd)


def _indices(launch: Launch) -> frozenset[int]:
    return frozenset((use.whole or use.device).index for use in launch.uses)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """A context with a descriptor of the directory, in which only root and this user can change anything. Raises
    OSError.
    """
    with contextlib.suppress(FileExistsError):
        directory.mkdir()
        # The exporter may run as another user, and the server's umask would hide its files from others.
        directory.chmod(0o755)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if found.st_uid not in (0, os.geteuid()):
            raise PermissionError(f"it is of user {found.st_uid}; give it to this server's user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"others can write to it; use chmod go-w {directory}")
        yield fd
    finally:
        os.close(fd)


def _is_ours(fd: int, name: str) -> bool:
    """Return whether the file was written here. It may be another's if the setting names a wrong directory."""
    with contextlib.suppress(OSError):
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        try:
            found = os.fstat(file)
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_size <= _MOST_BYTES:
                return _JOB_IDS.fullmatch(os.read(file, _MOST_BYTES)) is not None
        finally:
            os.close(file)
    return False


def _put(fd: int, name: str, text: str) -> None:
    """Write a file in one step, readable for all users."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_DRAFT, dir_fd=fd)
    file = os.open(_DRAFT, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=fd)
    with os.fdopen(file, "w") as draft:
        os.fchmod(file, 0o644)
        draft.write(text)
    os.rename(_DRAFT, name, src_dir_fd=fd, dst_dir_fd=fd)
