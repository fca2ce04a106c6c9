"""A cgroup per job, where this process may make one: everything in it can be killed in one write, whoever forked it.

Only the unified hierarchy (cgroup v2) of Linux 5.14 or newer will do: it has `cgroup.kill`. On hybrid machines it is
mounted beside the old one, and a process is in both.
"""

import functools
import os


def _unified_mount() -> str | None:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, where, kind, *_ = line.split(" ")
                if kind == "cgroup2":
                    return where
    except OSError:
        pass
    return None


def _own_path() -> str | None:
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as own:
            for line in own:
                if line.startswith("0::/") and "/.." not in line:
                    return line[3:].strip()
    except OSError:
        pass
    return None


@functools.cache
def own_directory() -> str:
    """Where this process, or the one it was forked from, was when first asked."""
    return f"{_unified_mount()}{_own_path()}"


def make_base(name: str) -> str | None:
    """A cgroup `name` to keep jobs in: below this process's own, which a service manager may have delegated, else at
    the root. None when neither can be written.
    """
    mount, own = _unified_mount(), _own_path()
    if mount is None or own is None:
        return None
    for parent in dict.fromkeys((f"{mount}{own.rstrip('/')}", mount)):
        base = f"{parent}/{name}"
        try:
            os.makedirs(base, exist_ok=True)
        except OSError:
            continue
        # Moving a process in needs the right to write the lowest group that holds both places.
        if os.access(f"{parent}/cgroup.procs", os.W_OK) and os.path.exists(f"{base}/cgroup.kill"):
            return base
    return None


def shown(path: str) -> str:
    """The cgroup at `path` as /proc/PID/cgroup names it."""
    return path.removeprefix(_unified_mount() or "")


def create(path: str) -> None:
    """Make an empty cgroup, or leave the one that is there. Raises OSError."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def join(path: str) -> None:
    """Move the calling process in. Raises OSError."""
    _write(f"{path}/cgroup.procs", b"0")


def kill(path: str) -> None:
    """Kill every process inside and below; a cgroup that is not there holds none."""
    try:
        _write(f"{path}/cgroup.kill", b"1")
    except OSError:
        return


def pids(path: str) -> list[int]:
    """Every process inside and below."""
    found: list[int] = []
    for directory, _, _ in os.walk(path):
        try:
            with open(f"{directory}/cgroup.procs", encoding="ascii") as procs:
                found.extend(map(int, procs))
        except OSError:
            continue
    return found


def remove(path: str) -> bool:
    """Remove the cgroup and those that the job made below it. False while a process is still inside."""
    for directory, _, _ in os.walk(path, topdown=False):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
