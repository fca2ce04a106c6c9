"""Which process supervises which launch, by what cannot be written into a record: the directory that it holds open."""

import os

from .procfs import LocalProcess, all_pids, read_file
from .supervisor import NAME

_GONE = " (deleted)"


def supervisors(launches: str) -> dict[str, list[LocalProcess]]:
    """Every living supervisor of a launch below that directory, by the launch's name."""
    found: dict[str, list[LocalProcess]] = {}
    for pid in all_pids():
        if not _is_supervisor(pid):
            continue
        launch = _launch_held(pid, launches)
        if launch is not None:
            try:
                found.setdefault(launch, []).append(LocalProcess.of(pid))
            except ProcessLookupError:
                continue
    return found


def is_another(process: LocalProcess, launches: str, launch: str) -> bool:
    """Whether the process is surely no supervisor of this launch.

    One of an earlier version of Corral holds nothing open by which it could be known for certain.
    """
    if not process.is_alive():
        return False
    unlike = not _is_supervisor(process.pid) or _launch_held(process.pid, launches) not in (None, launch)
    # One that ended between the looks is like none: of what is gone nothing can be read.
    return unlike and process.is_alive()


def _is_supervisor(pid: int) -> bool:
    try:
        return read_file(f"/proc/{pid}/comm").strip() == NAME
    except OSError:
        return False


def _launch_held(pid: int, launches: str) -> str | None:
    descriptors = f"/proc/{pid}/fd"
    try:
        for fd in os.listdir(descriptors):
            directory, _, name = os.readlink(f"{descriptors}/{fd}").rpartition("/")
            if directory == launches:
                return name.removesuffix(_GONE)
    except OSError:
        pass
    return None
