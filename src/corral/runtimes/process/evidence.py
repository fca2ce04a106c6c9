"""Which process supervises which launch, by what cannot be written into a record: the directory that it holds open.

A name and a path are what a process says of itself. What counts is whose the process is, which directory it really
holds, and whose child it is: no user reaches the directories of root's server. Where server and jobs are one user's, a
job that has killed its supervisor can do all that the supervisor could.
"""

import os
import stat
from collections.abc import Set

from .procfs import LocalProcess, all_pids, ancestry, read_file, uids_of

NAME = b"corral-job"
"""What every supervisor calls itself, as `native/main.c` has it."""

ZYGOTE = b"corral-zygote"
"""What every zygote calls itself."""

_GONE = " (deleted)"


def supervisors(launches: str) -> dict[str, list[LocalProcess]]:
    """Every living supervisor of a launch below that directory, by the launch's name."""
    holding: dict[LocalProcess, str] = {}
    for pid in all_pids():
        try:
            process = LocalProcess.of(pid) if _is_ours(pid, NAME) else None
        except ProcessLookupError:
            continue
        launch = None if process is None else _launch_held(pid, launches)
        # Only now, so that it is this very process that was looked at.
        if process is not None and launch is not None and process.is_alive():
            holding[process] = launch
    found: dict[str, list[LocalProcess]] = {}
    for process, launch in holding.items():
        if not _is_of_a_job(process, holding.keys()):
            found.setdefault(launch, []).append(process)
    return found


def is_another(process: LocalProcess, launches: str, launch: str) -> bool:
    """Whether the process is surely no supervisor of this launch.

    One of an earlier version of Corral holds nothing open by which it could be known for certain.
    """
    if not process.is_alive():
        return False
    unlike = not _is_ours(process.pid, NAME) or _launch_held(process.pid, launches) not in (None, launch)
    # One that ended between the looks is like none: of what is gone nothing can be read.
    return unlike and process.is_alive()


def _is_ours(pid: int, name: bytes) -> bool:
    """Whether it has that name, and all its rights are this user's, without a program that gives them away."""
    try:
        return (
            read_file(f"/proc/{pid}/comm").strip() == name
            and uids_of(pid) == {os.geteuid()}
            and not os.stat(f"/proc/{pid}/exe").st_mode & (stat.S_ISUID | stat.S_ISGID)
        )
    except OSError:
        return False


def _is_of_a_job(process: LocalProcess, known: Set[LocalProcess]) -> bool:
    """Whether it descends from a supervisor as all of a job does: without a zygote between, as of a server in a job."""
    for above in ancestry(process.pid)[1:]:
        if above in known:
            return True
        if _is_ours(above.pid, ZYGOTE):
            return False
    return False


def _launch_held(pid: int, launches: str) -> str | None:
    """The launch whose directory, below that one, the process holds open."""
    descriptors = f"/proc/{pid}/fd"
    try:
        for fd in os.listdir(descriptors):
            directory, _, name = os.readlink(f"{descriptors}/{fd}").rpartition("/")
            if directory == launches and _is_at(os.stat(f"{descriptors}/{fd}"), f"{launches}/{name}"):
                return name.removesuffix(_GONE)
    except OSError:
        pass
    return None


def _is_at(held: os.stat_result, path: str) -> bool:
    """Whether the directory that is held has that path, or had it and was removed; one elsewhere may show the same."""
    try:
        return stat.S_ISDIR(held.st_mode) and os.path.samestat(held, os.lstat(path))
    except FileNotFoundError:
        return path.endswith(_GONE)
