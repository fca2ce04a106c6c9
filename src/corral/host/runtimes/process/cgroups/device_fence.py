"""The fence of jobs: their cgroups keep them from opening some character devices.

Where the unified hierarchy is, the supervisor gives a job's cgroup a program (`native/fence.c`). Otherwise the device
controller (v1) keeps a list, if its hierarchy is writable. Only root can do both, and jobs of root can undo both.
"""

import contextlib
import hashlib
import os
import subprocess
import threading
from collections.abc import Iterable, Sequence

from corral.host.runtimes.process import native_supervisor
from corral.host.runtimes.process.cgroups import cgroup

Numbers = tuple[int, int, int]
"""Character devices: the major number, the first and the last minor number."""

_TRY_S = 10.0
CONTROLLER = "devices"


class DeviceFence:
    """The way in which this machine can fence jobs; none before `find`.

    Attributes:
        missing: why jobs cannot be fenced here; None if they can.
        by_program: the supervisor fences the cgroup by which a job is killed.
    """

    def __init__(self) -> None:
        self.missing: str | None = "no cgroup can be written here"
        self.by_program = False
        self._base: str | None = None
        self._listing = threading.Lock()
        self._listed: set[str] = set()

    def find(self, name: str, unified_base: str | None, root: str = "") -> None:
        """Find out what holds here, by trying it. `name` is that of the server's own groups."""
        if os.geteuid() != 0:
            self.missing = "the server does not run as root"
            return
        if unified_base is not None:
            self.missing = _failure(unified_base)
            self.by_program = self.missing is None
        if self.missing is not None:
            self._base = _listing_base(name, root)
            self.missing = None if self._base else self.missing

    def prepare(self, group: str, closed: Sequence[Numbers]) -> list[str]:
        """Create the group that keeps a job from these devices, and return its path; [] if a program does.

        Raises OSError.
        """
        if self._base is None or not closed:
            return []
        directory = f"{self._list(closed)}/{group}"
        cgroup.create(directory)
        return [directory]

    def _list(self, closed: Sequence[Numbers]) -> str:
        """Return a group that is kept from these devices. New groups in it have its list at once, which may be long."""
        directory = f"{self._base}/{hashlib.sha256(repr(closed).encode()).hexdigest()[:16]}"
        with self._listing:
            if directory not in self._listed:
                cgroup.create(directory)
                list_closed(directory, closed)
                self._listed.add(directory)
        return directory

    def discard(self, group: str) -> None:
        """Remove the group of a job of which nothing runs."""
        for directory in self._lists():
            cgroup.remove(f"{directory}/{group}")

    def keep(self, groups: Iterable[str]) -> None:
        """Remove the empty groups of jobs that are not in `groups`: their launches are over."""
        kept = set(groups)
        for directory in self._lists():
            cgroup.keep(directory, kept)

    def close(self) -> None:
        """Remove the groups in which the groups of jobs were created. Each stays while a job is inside."""
        for directory in (*self._lists(), self._base):
            with contextlib.suppress(OSError):
                os.rmdir(directory or "")
        self._base = None

    def _lists(self) -> list[str]:
        return [] if self._base is None else [entry.path for entry in os.scandir(self._base) if entry.is_dir()]


def list_closed(group: str, closed: Sequence[Numbers]) -> None:
    """Have the device controller keep a group from these devices. It knows no ranges. Raises OSError."""
    lines = [f"c {major}:{minor} rwm" for major, first, last in closed for minor in range(first, last + 1)]
    cgroup.write(f"{group}/devices.deny", *(line.encode() for line in lines))


def _failure(base: str) -> str | None:
    """Return why the kernel does not let a program keep a cgroup from a device; None if it does."""
    command = [native_supervisor.PATH, "--try-fence", f"{base}/fence"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the kernel's fence cannot be tried: {error}"
    return None if done.returncode == 0 else f"the kernel fences no cgroup: {done.stderr.strip() or done.returncode}"


def _listing_base(name: str, root: str) -> str | None:
    for place in cgroup.places(CONTROLLER, root):
        base = f"{place}/{name}"
        with contextlib.suppress(OSError):
            cgroup.create(base)
            if os.access(f"{base}/devices.deny", os.W_OK) and os.access(f"{base}/cgroup.procs", os.W_OK):
                return base
    return None
