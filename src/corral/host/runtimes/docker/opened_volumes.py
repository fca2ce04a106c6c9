"""Prepares the host directories of a container: each gets a path that leads to the checked directory and nowhere else.

A user's path may lead elsewhere a moment later. So a process that runs as the user follows it once, name by name and
through no link. The directory that this process has opened is mounted below a directory of root's, in Docker's own
mount namespace, and Docker mounts it from there. Only root can do so: the server of a plain user passes the path to
Docker.
"""

import ctypes
import errno
import json
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from corral.core.model.jobs.container import is_below
from corral.host.runtimes.docker.as_user import answer_of, opened_as
from corral.host.runtimes.docker.records import HostUser

STAGE = "/run/corral-volumes"
"""The directory with the staged volumes. It has a directory for each container until the container has begun."""

_MOUNTED_S = 10.0
"""The time limit for each volume, and for the work on all volumes of a container together."""

_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class NotShown(Exception):
    """A volume that cannot be shown; says why, a sentence without its full stop."""


class Wanted(NamedTuple):
    """One volume.

    Attributes:
        source: the path that the request gives as the source of the mount.
        inner: paths in this volume at which other volumes are mounted.
        workdir: the working directory of the container, relative to this volume; None if it is elsewhere.
    """

    source: str
    inner: tuple[str, ...] = ()
    workdir: str | None = None
    read_only: bool = False


def wanted_of(mounts: Sequence[dict[str, Any]], others: Sequence[str], workdir: str) -> list[Wanted]:
    """Return the volumes of a container's mounts, given the places of `others`. A place belongs to the innermost volume
    around it.
    """
    targets = [posixpath.normpath(one["Target"]) for one in mounts]

    def below(target: str, places: Sequence[str]) -> tuple[str, ...]:
        return tuple(posixpath.relpath(each, target) for each in places if _innermost(each, targets) == target)

    points = tuple(dict.fromkeys((*targets, *map(posixpath.normpath, others))))
    return [
        Wanted(
            one["Source"],
            below(target, points),
            next(iter(below(target, [posixpath.normpath(workdir)])), None),
            bool(one.get("ReadOnly")),
        )
        for one, target in zip(mounts, targets, strict=True)
    ]


def _innermost(place: str, targets: Sequence[str]) -> str | None:
    """Return the innermost of `targets` that the place is below; None if it is below none."""
    return max((target for target in targets if target != place and is_below(place, [target])), key=len, default=None)


def stage(
    name: str, volumes: Sequence[Wanted], owner: HostUser, host_paths: Sequence[str], docker_pid: int | None
) -> list[str]:
    """Return paths for Docker to mount, one for each volume. Raises NotShown.

    `docker_pid` is a process in whose mount namespace Docker mounts; None if unknown, for that of this process.
    """
    if not volumes:
        return []

    def stage_all() -> list[str]:
        allowed = [os.path.realpath(path) for path in host_paths]
        by_root = os.geteuid() == 0
        if by_root:
            _release(name)
            _make_place(name)
        return [
            _staged(volume, owner, allowed, f"{STAGE}/{name}/{number}" if by_root else None)
            for number, volume in enumerate(volumes)
        ]

    return _where_docker_mounts(docker_pid, stage_all, _MOUNTED_S * (1 + len(volumes)))


def release(name: str, docker_pid: int | None) -> None:
    """Unmount the volumes staged for a container, if there are any. The container keeps its own mounts.

    Not for a process that has threads: it forks, and the child runs Python (see `released_volumes`).
    """
    if not is_staged(name, docker_pid):
        return

    def release_all() -> list[str]:
        _release(name)
        return []

    with suppress(NotShown):
        _where_docker_mounts(docker_pid, release_all, _MOUNTED_S)


def is_staged(name: str, docker_pid: int | None) -> bool:
    """Return whether volumes may still be staged for a container."""
    root = "" if docker_pid is None else f"/proc/{docker_pid}/root"
    return os.geteuid() == 0 and os.path.isdir(f"{root}{STAGE}/{name}")


def _staged(volume: Wanted, owner: HostUser, allowed: Sequence[str], place: str | None) -> str:
    """Mount the volume at `place` and return its path there; without a place return the volume's own path."""
    found = opened_as(owner, lambda: _opened(volume, allowed))
    if found is None:
        raise NotShown(f"volume: {volume.source} is no directory here that you can reach; see ls -ld")
    fd, words = found
    try:
        path, refusal = json.loads(words)
        if refusal is not None:
            raise NotShown(refusal)
        if place is None:
            return str(path)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.mkdir(place, 0o700)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        _mount(f"/proc/self/fd/{fd}", place, _MS_BIND | _MS_REC)
        # Otherwise an unmount here would propagate to the original.
        _mount("", place, _MS_REC | _MS_PRIVATE)
        return place
    finally:
        os.close(fd)


# As the job's user


def _opened(volume: Wanted, allowed: Sequence[str]) -> tuple[int, bytes]:
    """Open the user's path. Return its descriptor, with the real path and the reason of a refusal, if any. Raises
    OSError.
    """
    path = os.path.realpath(volume.source, strict=True)
    os.stat(f"{path}/." if os.path.isdir(path) else path)
    fd = os.open("/", _STEP | os.O_DIRECTORY)
    for part in path.split("/"):
        if part:
            fd = _into(fd, part)
    refusal = None
    if not is_below(path, allowed):
        refusal = f"volume: {volume.source} leads to {path}, which is not shown to jobs here"
    places = [(place, False) for place in volume.inner]
    places += [] if volume.workdir is None else [(volume.workdir, True)]
    for place, may_be_link in places if refusal is None else ():
        try:
            _have(fd, place, make=not volume.read_only, may_be_link=may_be_link)
        except OSError as error:
            refusal = (
                f"volume: {volume.source} has no directory {place} for what is to be there in the container, "
                f"and it cannot be made ({error.strerror}); make it first, or mount it elsewhere"
            )
    return fd, json.dumps([path, refusal]).encode()


def _into(fd: int, name: str) -> int:
    """Open a name in a directory. Nothing is closed: this process ends soon."""
    inner = os.open(name, _STEP, dir_fd=fd)
    if stat.S_ISLNK(os.fstat(inner).st_mode):
        raise OSError(errno.ELOOP, f"{name} is a link")
    return inner


def _have(fd: int, place: str, *, make: bool, may_be_link: bool) -> None:
    """Make sure that directories exist. Docker would otherwise make them as root, even where the user may not write."""
    parts = place.split("/")
    for number, part in enumerate(parts, start=1):
        if make:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=fd)
        is_link = stat.S_ISLNK(os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode)
        if not (is_link and may_be_link and number == len(parts)):
            fd = _into(fd, part)


# As root, where Docker mounts


def _where_docker_mounts(docker_pid: int | None, act: Callable[[], list[str]], limit_s: float) -> list[str]:
    """Return the result of `act` in a child in that mount namespace.

    Raises NotShown, also for refusals of the kernel and after `limit_s`.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            _answer(docker_pid, act, writer)
        finally:
            os._exit(0)
    os.close(writer)
    said = answer_of(child, reader, limit_s)
    if said is None:
        raise NotShown(f"volume: it could not be mounted within {limit_s:g} s: a file system may not answer")
    paths, refusal = json.loads(said or b'[[], "volume: it could not be mounted: its helper ended"]')
    if refusal is not None:
        raise NotShown(refusal)
    return list(paths)


def _answer(docker_pid: int | None, act: Callable[[], list[str]], writer: int) -> None:
    paths: list[str] = []
    refusal: str | None = None
    try:
        _enter(docker_pid)
        paths = act()
    except NotShown as refused:
        refusal = str(refused)
    except OSError as error:
        refusal = f"volume: it cannot be mounted for Docker: {error}"
    with os.fdopen(writer, "wb") as answer:
        answer.write(json.dumps([paths, refusal]).encode())


def _enter(pid: int | None) -> None:
    """Enter the process's mount namespace. Raises OSError. A plain user stays and can only use the Docker of its own
    namespace.
    """
    if pid is None or os.geteuid() != 0 or os.path.samefile(f"/proc/{pid}/ns/mnt", "/proc/self/ns/mnt"):
        return
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    _checked(_libc().setns(namespace, _CLONE_NEWNS), "setns")
    os.close(namespace)


def _make_place(name: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(STAGE, 0o700)
    os.mkdir(f"{STAGE}/{name}", 0o700)


def _release(name: str) -> None:
    """Unmount and remove the places of a container. Only empty places are removed: below a mount are the user's
    files.
    """
    for place in _places(name):
        with suppress(OSError):
            _mount("", place, _MS_REC | _MS_PRIVATE)
            _checked(_libc().umount2(os.fsencode(place), _MNT_DETACH | _UMOUNT_NOFOLLOW), place)
        if not os.path.ismount(place):
            (os.rmdir if os.path.isdir(place) else os.unlink)(place)
    with suppress(FileNotFoundError):
        os.rmdir(f"{STAGE}/{name}")


def _places(name: str) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from sorted(f"{STAGE}/{name}/{entry}" for entry in os.listdir(f"{STAGE}/{name}"))


def _mount(source: str, place: str, flags: int) -> None:
    _checked(_libc().mount(os.fsencode(source), os.fsencode(place), None, ctypes.c_ulong(flags), None), place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
