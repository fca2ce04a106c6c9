"""Identifies the supervisor of a launch by a fact that no record can forge: the directory that it holds open.

A process chooses its own name and path. Reliable facts are its user, the directory that it really holds, and its
parent: no user reaches the directories of root's server. If server and jobs have one user, a job that has killed its
supervisor can do all that the supervisor could.
"""

import os
import stat
from collections.abc import Set

from corral.host.runtimes.process.procfs import LocalProcess, all_pids, ancestry, read_file, uids_of

NAME = b"corral-job"
"""The process name of every supervisor, as in `native/main.c`."""

ZYGOTE = b"corral-zygote"
"""The process name of every zygote."""

_GONE = " (deleted)"


def supervisors(launches: str) -> dict[str, list[LocalProcess]]:
    """Return every living supervisor of a launch below that directory, by the launch's id."""
    holding: dict[LocalProcess, str] = {}
    for pid in all_pids():
        try:
            process = LocalProcess.of(pid) if _is_ours(pid, NAME) else None
        except ProcessLookupError:
            continue
        launch = None if process is None else _launch_held(pid, launches)
        # The identity is read last, so that it belongs to the process that was examined.
        if process is not None and launch is not None and process.is_alive():
            holding[process] = launch
    found: dict[str, list[LocalProcess]] = {}
    for process, launch in holding.items():
        if not _is_of_a_job(process, holding.keys()):
            found.setdefault(launch, []).append(process)
    return found


def is_another(process: LocalProcess, launches: str, launch: str) -> bool:
    """Return whether the process is surely no supervisor of this launch.

    A supervisor of an earlier version of Corral holds nothing open that would identify it for certain.
    """
    if not process.is_alive():
        return False
    unlike = not _is_ours(process.pid, NAME) or _launch_held(process.pid, launches) not in (None, launch)
    # A process that has ended meanwhile is not a supervisor of another launch: nothing of it can be read.
    return unlike and process.is_alive()


def _is_ours(pid: int, name: bytes) -> bool:
    """Return whether the process has that name, and only this user's rights, without a set-uid or set-gid program."""
    try:
        return (
            read_file(f"/proc/{pid}/comm").strip() == name
            and uids_of(pid) == {os.geteuid()}
            and not os.stat(f"/proc/{pid}/exe").st_mode & (stat.S_ISUID | stat.S_ISGID)
        )
    except OSError:
        return False


def _is_of_a_job(process: LocalProcess, known: Set[LocalProcess]) -> bool:
    """Return whether the process descends from a supervisor as a job's processes do.

    A zygote in between is that of a server that runs inside a job: its supervisors do not count.
    """
    for above in ancestry(process.pid)[1:]:
        if above in known:
            return True
        if _is_ours(above.pid, ZYGOTE):
            return False
    return False


def _launch_held(pid: int, launches: str) -> str | None:
    """Return the launch whose directory, below `launches`, the process holds open."""
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
    """Return whether the held directory has that path, or had it and was removed. A directory elsewhere may show the
    same path.
    """
    try:
        return stat.S_ISDIR(held.st_mode) and os.path.samestat(held, os.lstat(path))
    except FileNotFoundError:
        return path.endswith(_GONE)
