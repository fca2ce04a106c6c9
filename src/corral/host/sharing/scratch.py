"""Reads and writes a scratch root: one `resource.txt` per running job. Files may vanish or be damaged while they are
read.

The directory of a job belongs to its user, who may replace any file in it at any moment. So each step starts from the
descriptor of the last step. It follows no symbolic link, waits for no pipe, and enters no other file system: one that
the user has mounted may never answer.
"""

import contextlib
import errno
import os
import re
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corral.as_login import command_as
from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.printable import printable
from corral.core.sharing.resource_txt import BadText, ResourceFile, parse, render
from corral.untrusted import Unread, guarded

_NAME, _SCRIPT, _STOP, _FRESH = "resource.txt", "script", "stop", "resource.new"
_FOR_ALL_TO_ENTER = 0o755
_MOST_BYTES = 1024 * 1024
_INFO_BYTES = 1024
_MOST_WORDS = 1000
_KERNEL = re.compile(r"\d+(_\d+)?")
"""The names of directories that Corral created: the ids of jobs."""
_ASIDE = re.compile(r"\.\d+(_\d+)?\.\d+")
_MARK = re.compile(r"\.(\d+(?:_\d+)?)\.kept")


@dataclass(frozen=True, slots=True)
class BadFile:
    """A skipped file, and the reason."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.reason}"[:_MOST_WORDS])[:_MOST_WORDS]


@dataclass(frozen=True, slots=True)
class Scan:
    """The readable files by kernel id, and the skipped ones; both in order of kernel id."""

    files: Mapping[str, ResourceFile]
    bad: tuple[BadFile, ...]


def scan(root: Path, *, mounts: bool = False) -> Scan:
    """Read `<root>/<kernel>/config/resource.txt` of every kernel; with `mounts` also on file systems mounted there.

    A kernel without the file has just ended and is skipped. Any other problem is returned by file, and the other files
    are still read. Raises Refused if the root itself cannot be read.
    """
    try:
        kernels = sorted(entry.name for entry in root.iterdir())
    except OSError as error:
        raise Refused(f"{root}: cannot be scanned: {error.strerror}; name a scratch root", field="--scan") from None
    files: dict[str, ResourceFile] = {}
    bad: list[BadFile] = []
    for kernel in kernels:
        path = root / kernel / "config" / "resource.txt"
        try:
            with _opened(root, kernel, mounts=mounts) as config:
                text = _read(config, mounts=mounts)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            bad.append(BadFile(path, f"cannot be read: {error.strerror}"))
            continue
        parsed = guarded(str(path), partial(parse, text)) if isinstance(text, str) else text
        if isinstance(parsed, BadText):
            bad.append(BadFile(path, parsed.reason))
        elif isinstance(parsed, Unread):
            bad.append(BadFile(path, parsed.why))
        else:
            files[kernel] = parsed
    return Scan(files, tuple(bad))


def put(
    root: Path, kernel: str, file: ResourceFile, owner: tuple[int, int] | None = None, script: str | None = None
) -> None:
    """Write a kernel's file so that a reader finds all of it or none.

    The kernel's directory is created if necessary and given to `owner` (uid, gid). `config` and its files, including
    the copy of a `script`, stay this process's and are readable for all. A root that was removed while the server runs
    is created again. Raises BackendFailed if the disk fails, or the owner has put something else in the file's place.
    """
    home = root / kernel
    try:
        if not root.is_dir():
            root.mkdir()
            root.chmod(0o755 if os.geteuid() == 0 else 0o700)
        fresh = _make(home)
        # A new directory is still private, so nobody can have changed it; it is given to the owner at the end.
        with descriptor(root) as top, descriptor(kernel, top, mounts=fresh) as above:
            with contextlib.suppress(FileExistsError):
                os.mkdir("config", _FOR_ALL_TO_ENTER, dir_fd=above)
            with descriptor("config", above, mounts=fresh) as config:
                found = os.fstat(config)
                if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != _FOR_ALL_TO_ENTER:
                    # This process's umask may have removed bits of the mode.
                    os.chmod(f"/proc/self/fd/{config}", _FOR_ALL_TO_ENTER)
                if not fresh:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(_FRESH, dir_fd=config)
                _write(config, _NAME, render(file).encode())
                if script is not None:
                    _write(config, _SCRIPT, script.encode(errors="surrogateescape"))
            if owner is not None and (fresh or os.fstat(above).st_uid == os.geteuid()):
                os.chown(f"/proc/self/fd/{above}", *owner)
    except OSError as error:
        raise BackendFailed(f"{home / 'config' / _NAME} cannot be written: {error.strerror}") from error


def _make(home: Path) -> bool:
    """Create a kernel's directory. Return whether it is new."""
    try:
        home.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _write(config: int, name: str, data: bytes) -> None:
    fd = os.open(_FRESH, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=config)
    try:
        os.fchmod(fd, 0o644)
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)
    os.replace(_FRESH, name, src_dir_fd=config, dst_dir_fd=config)


def tell_stop(root: Path, kernel: str, text: str | None) -> None:
    """Write beside a kernel's file when its work is stopped, or remove that (None). Raises BackendFailed."""
    try:
        with _opened(root, kernel) as config:
            if text is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(_STOP, dir_fd=config)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(_FRESH, dir_fd=config)
                _write(config, _STOP, text.encode())
    except OSError as error:
        raise BackendFailed(f"{root / kernel / 'config' / _STOP} cannot be written: {error.strerror}") from error


def drop(root: Path, kernel: str) -> None:
    """Remove a kernel's file, and all beside it. Raises BackendFailed."""
    try:
        with _opened(root, kernel) as config:
            for name in (_SCRIPT, _STOP, _NAME):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=config)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise BackendFailed(f"{root / kernel / 'config' / _NAME} cannot be removed: {error.strerror}") from error


def set_aside(root: Path, kernel: str) -> str | None:
    """Rename a kernel's directory, to be removed later. Return its new name, None if nothing is left of it.

    Raises BackendFailed.
    """
    aside = f".{kernel}.{time.time_ns()}"
    try:
        with descriptor(root) as top:
            if _removed_bare(top, kernel):
                return None
            if is_mounted_below(str(root / kernel)):
                raise OSError(errno.EXDEV, "another file system is mounted in it")
            os.rename(kernel, aside, src_dir_fd=top, dst_dir_fd=top)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BackendFailed(f"{root / kernel} cannot be moved aside: {error.strerror}") from error
    return aside


def _removed_bare(top: int, kernel: str) -> bool:
    """Remove a kernel's directories if they are empty. Return whether they are gone."""
    try:
        with contextlib.suppress(FileNotFoundError), descriptor(kernel, top) as home:
            os.rmdir("config", dir_fd=home)
        os.rmdir(kernel, dir_fd=top)
    except OSError:
        return False
    return True


def put_back(root: Path, aside: str, kernel: str, part: str) -> bool:
    """Move a directory of a renamed one to where it was. Return whether there was such a directory.

    What is around it belongs to the same user as before. Raises BackendFailed.
    """
    try:
        with descriptor(root) as top, descriptor(aside, top) as old:
            try:
                with descriptor(part, old):
                    owner = os.fstat(old)
            except (FileNotFoundError, NotADirectoryError):
                return False
            os.mkdir(kernel, 0o700, dir_fd=top)
            with descriptor(kernel, top) as home:
                os.rename(part, part, src_dir_fd=old, dst_dir_fd=home)
                os.chown(f"/proc/self/fd/{home}", owner.st_uid, owner.st_gid)
    except OSError as error:
        raise BackendFailed(f"{root / aside / part} cannot be kept: {error.strerror}") from error
    return True


def mark_kept(root: Path, kernel: str) -> None:
    """Note that a kernel has ended and that the rest of its directory is kept from now on. Raises BackendFailed."""
    try:
        (root / _mark(kernel)).touch(mode=0o600)
    except OSError as error:
        raise BackendFailed(f"{root / _mark(kernel)} cannot be written: {error.strerror}") from error


def unmark_kept(root: Path, kernel: str) -> None:
    """Note that a kernel's directory is in use again, or gone. Raises BackendFailed."""
    try:
        (root / _mark(kernel)).unlink(missing_ok=True)
    except OSError as error:
        raise BackendFailed(f"{root / _mark(kernel)} cannot be removed: {error.strerror}") from error


def kept(root: Path) -> dict[str, float]:
    """Return the kernels whose directories are kept, with the seconds since their end."""
    now, found = time.time(), dict[str, float]()
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if (name := _MARK.fullmatch(entry.name)) is not None:
                with contextlib.suppress(OSError):
                    found[name[1]] = now - entry.stat(follow_symlinks=False).st_mtime
    return found


def kernel_of(aside: str) -> str:
    """Return the kernel whose directory was renamed to this."""
    return aside.removeprefix(".").partition(".")[0]


def _mark(kernel: str) -> str:
    return f".{kernel}.kept"


def remove(root: Path, name: str) -> None:
    """Remove a renamed directory with all its contents. Raises BackendFailed."""
    try:
        with descriptor(root) as top:
            try:
                with descriptor(name, top) as home:
                    _emptied(home)
                os.rmdir(name, dir_fd=top)
            except NotADirectoryError:
                os.unlink(name, dir_fd=top)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BackendFailed(f"{root / name} cannot be removed: {error.strerror}") from error
    except BackendFailed as failure:
        raise BackendFailed(f"{root / name} cannot be removed: {failure}") from failure


def _emptied(home: int) -> None:
    """Empty a directory as its owner, even if the owner has renamed its `config`. Raises BackendFailed."""
    try:
        empty(home)
    except BackendFailed:
        if not _removed_own(home):
            raise
        empty(home)


def _removed_own(home: int) -> bool:
    """Remove the directories in `home` that this process made for resource files. Return whether there was one.

    Their owner may have renamed them, but cannot remove them. No other directory of root can be here, because moving a
    directory requires write permission for it. Only the files of a `config`, and directories that are then empty, are
    removed.
    """
    if os.fstat(home).st_uid == os.geteuid():
        return False
    listed = os.open(f"/proc/self/fd/{home}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    found = False
    try:
        for name in os.listdir(listed):
            with contextlib.suppress(OSError), descriptor(name, listed) as config:
                if os.fstat(config).st_uid == os.geteuid():
                    for file in (_NAME, _SCRIPT, _STOP, _FRESH):
                        with contextlib.suppress(FileNotFoundError):
                            os.unlink(file, dir_fd=config)
                    os.rmdir(name, dir_fd=listed)
                    found = True
    finally:
        os.close(listed)
    return found


def left(root: Path) -> tuple[list[str], list[str]]:
    """Return (kernels that have a directory, renamed directories that are not removed yet), each in order."""
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return [], []
    return [name for name in names if _KERNEL.fullmatch(name)], [name for name in names if _ASIDE.fullmatch(name)]


@contextlib.contextmanager
def _opened(root: Path, kernel: str, *, mounts: bool = False) -> Iterator[int]:
    """Open the directory of a kernel's file. Raises OSError."""
    with (
        descriptor(root) as top,
        descriptor(kernel, top, mounts=mounts) as home,
        descriptor("config", home, mounts=mounts) as config,
    ):
        yield config


@contextlib.contextmanager
def descriptor(
    name: str | Path, above: int | None = None, *, mounts: bool = False, kind: int = os.O_DIRECTORY
) -> Iterator[int]:
    """Open a name as an O_PATH descriptor, in the directory `above` if given. It allows no reading, and no file system
    is asked.

    Raises OSError.
    """
    nofollow = 0 if above is None else os.O_NOFOLLOW
    fd = os.open(name, os.O_PATH | kind | nofollow | os.O_CLOEXEC, dir_fd=above)
    try:
        if above is not None and not mounts and _mount_of(fd) != _mount_of(above):
            raise OSError(errno.EXDEV, "another file system is mounted there")
        yield fd
    finally:
        os.close(fd)


def _mount_of(fd: int) -> bytes:
    """Return the mount of a descriptor. Asking for its device instead would ask the file system, which may not
    answer.
    """
    info = os.open(f"/proc/self/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return next(line for line in os.read(info, _INFO_BYTES).splitlines() if line.startswith(b"mnt_id:"))
    finally:
        os.close(info)


def _read(config: int, *, mounts: bool) -> str | BadText:
    """Return the text of the file. A link is not followed: its owner may not be allowed to read the target."""
    with descriptor(_NAME, config, mounts=mounts, kind=0) as found:
        mode = os.fstat(found).st_mode
        if stat.S_ISLNK(mode):
            return BadText("is a symbolic link, which is not followed")
        if not stat.S_ISREG(mode):
            return BadText("is not a regular file")
        fd = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        content = os.read(fd, _MOST_BYTES + 1)
    finally:
        os.close(fd)
    if len(content) > _MOST_BYTES:
        return BadText(f"is larger than {_MOST_BYTES} bytes, which no resource file is")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return BadText("is not UTF-8 text")


_LIMIT_S = 120.0
"""The time limit of each command in seconds. The next server removes what is left."""
_ESCAPED = re.compile(rb"\\([0-3][0-7]{2})")
_REMOVE = ("nice", "find", ".", "-xdev", "-mindepth", "1", "-delete")
_OPEN_UP = ("nice", "chmod", "-R", "u+rwX", ".")


def is_mounted_below(path: str) -> bool:
    """Return whether a file system is mounted below the path; it may never answer. One mounted later costs the time
    limit.
    """
    below = os.fsencode(path) + b"/"
    with open("/proc/self/mountinfo", "rb") as mounts:
        return any(_ESCAPED.sub(_unescaped, line.split(b" ")[4]).startswith(below) for line in mounts)


def empty(directory: int) -> None:
    """Remove everything in the directory of this descriptor. Raises BackendFailed if something is left."""
    if is_mounted_below(os.readlink(f"/proc/self/fd/{directory}")):
        raise BackendFailed("another file system is mounted in it")
    # The first run does not change modes: directories without write permission are rare.
    if _run(directory, _REMOVE):
        # The directory itself is opened from here: its owner's commands start in it, and cannot if the owner has shut
        # it.
        os.chmod(f"/proc/self/fd/{directory}", stat.S_IMODE(os.fstat(directory).st_mode) | stat.S_IRWXU)
        _run(directory, _OPEN_UP)
        failed = _run(directory, _REMOVE)
        if failed:
            raise BackendFailed(failed)


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])


def _run(directory: int, command: tuple[str, ...]) -> str:
    """Run a command in the directory as its owner. Return the error, "" if there was none."""
    owner = os.fstat(directory)
    other = os.geteuid() == 0 and owner.st_uid != 0
    try:
        done = subprocess.run(
            command_as(owner.st_uid, owner.st_gid, (), command) if other else command,
            cwd=f"/proc/self/fd/{directory}",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return f"{command[1]} did not end within {_LIMIT_S:g} s"
    except OSError as error:
        return f"{command[1]} cannot be run: {error.strerror}"
    return f"something in it cannot be removed by user {owner.st_uid}" if done.returncode else ""
