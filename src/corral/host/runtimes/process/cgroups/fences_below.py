"""The fences of processes that Corral did not start: each gets a group below its own, which is closed to devices.

So all that its session, container or job counts, limits and kills stays, and it loses devices alone.
"""

import contextlib
import hashlib
import json
import os
import stat
import subprocess
import threading
from collections.abc import Sequence

from corral.host.runtimes.process import native_supervisor
from corral.host.runtimes.process.cgroups import cgroup
from corral.host.runtimes.process.cgroups.device_fence import CONTROLLER, Numbers, list_closed
from corral.host.runtimes.process.procfs import LocalProcess

_WITHIN_S = 10.0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class FencesBelow:
    """Puts processes behind fences, `by_program` or by a list. `name` is that of the server's own groups.

    A group is removed once nothing runs in it: before the next one is made, and at the end of the server.
    """

    def __init__(self, name: str, *, by_program: bool, root: str = "") -> None:
        self._prefix = f"{name}-fence-"
        self._controller = "" if by_program else CONTROLLER
        self._root = root
        self._lock = threading.Lock()
        self._places: set[str] = set()

    def move(self, process: LocalProcess, closed: Sequence[Numbers]) -> bool:
        """Close these devices to a process, and to all that it will start. Return whether only root can undo it.

        Raises OSError, of which ProcessLookupError says that the process has ended.
        """
        with self._lock:
            place, own = self._place_of(process.pid)
            digest = hashlib.sha256(repr(closed).encode()).hexdigest()[:8]
            group = f"{place}/{self._prefix}{process.pid}-{process.start_ticks}-{digest}"
            if own != group:
                self._sweep()
                self._places.add(place)
                self._fill(group, process, closed)
            # A process that has ended meanwhile may have left its number to another.
            if not process.is_alive():
                raise ProcessLookupError(f"process {process.pid} has ended")
        return all(map(_is_roots, _groups_above(group)))

    def close(self) -> None:
        """Remove the groups in which nothing runs. A fence stays while a process is behind it."""
        with self._lock:
            self._sweep()

    def _place_of(self, pid: int) -> tuple[str, str]:
        """Return the group in which a fence of the process is made, and its present group.

        That is the same one, unless it is a fence. Behind the fence of a command, another has its own beside it.
        """
        mount, path = cgroup.mount_of(self._controller, self._root), cgroup.path_of(pid, self._controller, self._root)
        if mount is None or path is None:
            raise FileNotFoundError(f"the cgroup of process {pid} is not visible to the server")
        own = f"{mount}{path.rstrip('/')}"
        return own.partition(f"/{self._prefix}")[0], own

    def _fill(self, group: str, process: LocalProcess, closed: Sequence[Numbers]) -> None:
        try:
            self._make(group, closed)
            if process.is_alive():
                cgroup.write(f"{group}/cgroup.procs", str(process.pid).encode())
        finally:
            _remove_empty(group)

    def _make(self, group: str, closed: Sequence[Numbers]) -> None:
        if self._controller:
            cgroup.create(group)
            list_closed(group, closed)
            return
        numbers = json.dumps([number for one in closed for number in one])
        command = [native_supervisor.PATH, "--fence", group, numbers]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(str(error)) from error
        if done.returncode:
            raise OSError(f"the kernel closes nothing to {group}: {done.stderr.strip() or done.returncode}")

    def _sweep(self) -> None:
        """Remove the groups in which nothing runs, and forget the places where no other is left."""
        self._places = {place for place in self._places if self._is_left(place)}

    def _is_left(self, place: str) -> bool:
        try:
            here = [entry.path for entry in os.scandir(place) if entry.name.startswith(self._prefix)]
        except OSError:
            return False
        left = [group for group in here if not _remove_empty(group)]
        return bool(left)


def _remove_empty(group: str) -> bool:
    """Remove a group if nothing runs in it. Return whether it is gone."""
    with contextlib.suppress(OSError):
        os.rmdir(group)
    return not os.path.exists(group)


def _groups_above(group: str) -> list[str]:
    """Return the groups of the same hierarchy in which this one lies."""
    above = []
    while os.path.exists(f"{(group := os.path.dirname(group))}/cgroup.procs"):
        above.append(group)
    return above


def _is_roots(group: str) -> bool:
    """Return whether only root can make groups in this one, and move processes into it."""
    found = [os.stat(path) for path in (group, f"{group}/cgroup.procs")]
    return all(one.st_uid == 0 and not one.st_mode & _WRITABLE_BY_OTHERS for one in found)
