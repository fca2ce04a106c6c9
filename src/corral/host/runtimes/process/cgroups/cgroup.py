"""A cgroup per job, if this process may make one: one write kills all processes in it, whichever process forked them.

Killing needs the unified hierarchy (cgroup v2) of Linux 5.14 or newer, which has `cgroup.kill`. Hybrid machines mount
it beside the old hierarchies (v1), of which each controller has one; a process is in all of them.
"""

import os
from collections.abc import Collection

from corral.host.runtimes.process.procfs import read_file


def mount_of(controller: str, root: str) -> str | None:
    """Return the mount point of a v1 controller's hierarchy; "" stands for the unified hierarchy."""
    for line in _lines(f"{root}/proc/self/mounts"):
        _, where, kind, options, *_ = line.split(" ")
        if kind == ("cgroup" if controller else "cgroup2") and controller in ("", *options.split(",")):
            return f"{root}{where}"
    return None


def path_of(process: int | str, controller: str, root: str) -> str | None:
    """Return a process's path in that hierarchy; None if it lies outside of the visible part."""
    for line in _lines(f"{root}/proc/{process}/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") and "/.." not in path:
            return path
    return None


def _lines(path: str) -> list[str]:
    try:
        return read_file(path).decode(errors="surrogateescape").splitlines()
    except OSError:
        return []


def places(controller: str = "", root: str = "") -> list[str]:
    """Return places for a group of one's own, the best first: in the part delegated by a service manager, else at the
    top.

    `controller` names a v1 hierarchy, "" the unified one. A service's own group may be a leaf below the delegated group
    (DelegateSubgroup= of systemd.exec), because only a group without processes passes controllers down.
    """
    mount, own = mount_of(controller, root), path_of("self", controller, root)
    if mount is None or own is None:
        return []
    here = f"{mount}{own.rstrip('/')}"
    above = [os.path.dirname(here)] if here != mount and _is_delegated(os.path.dirname(here)) else []
    return list(dict.fromkeys((*above, here, mount)))


def _is_delegated(directory: str) -> bool:
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(directory, name) == b"1":
                return True
        except OSError:
            continue
    return False


def make_base(name: str, root: str = "") -> str | None:
    """Return the path of a new or existing cgroup `name` for the cgroups of jobs; None if this machine allows none."""
    for parent in places(root=root):
        base = f"{parent}/{name}"
        try:
            os.makedirs(base, exist_ok=True)
        except OSError:
            continue
        # Moving a process requires write permission for the lowest group that contains both places.
        if os.access(f"{parent}/cgroup.procs", os.W_OK) and os.path.exists(f"{base}/cgroup.kill"):
            return base
    return None


def shown(path: str) -> str:
    """Return the cgroup at `path` as /proc/PID/cgroup names it."""
    return path.removeprefix(mount_of("", "") or "")


def is_place_of(path: object, base_name: str, name: str, root: str = "") -> bool:
    """Return whether `path` is the cgroup `name` in a group `base_name`, anywhere in the hierarchy."""
    mount = mount_of("", root)
    return (
        isinstance(path, str)
        and mount is not None
        and path == os.path.normpath(path)
        and path.startswith(f"{mount}/")
        and path.endswith(f"/{base_name}/{name}")
    )


def create(path: str) -> None:
    """Create an empty cgroup. Does nothing if it exists. Raises OSError."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return


def write(path: str, *words: bytes) -> None:
    """Write to a file of a cgroup, each word by itself. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for word in words:
            os.write(fd, word)
    finally:
        os.close(fd)


def kill(path: str) -> None:
    """Kill every process in the cgroup and below it. Does nothing if the cgroup does not exist."""
    try:
        write(f"{path}/cgroup.kill", b"1")
    except OSError:
        return


def pids(path: str) -> list[int]:
    """Return every process in the cgroup and below it."""
    found: list[int] = []
    for directory, _, _ in os.walk(path):
        try:
            with open(f"{directory}/cgroup.procs", encoding="ascii") as procs:
                found.extend(map(int, procs))
        except OSError:
            continue
    return found


def keep(base: str, groups: Collection[str]) -> None:
    """Remove the empty groups below `base` that are not in `groups`: their launches are over."""
    for entry in os.scandir(base):
        if entry.is_dir(follow_symlinks=False) and entry.name not in groups:
            remove(entry.path)


def remove(path: str) -> bool:
    """Remove the cgroup, and the cgroups that the job has created below it. Return False while a process is in one of
    them.
    """
    try:
        os.rmdir(path)
        return True
    except FileNotFoundError:
        return True
    except OSError:
        return _remove_below(path)


def _remove_below(path: str) -> bool:
    for directory, _, _ in os.walk(path, topdown=False):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
