"""A scratch root: one `resource.txt` per running job, some gone or damaged by the time they are read."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.model.errors import BackendFailed, Refused
from corral.sharing.resource_txt import BadText, ResourceFile, parse, render

_NAME, _FRESH = "resource.txt", "resource.new"
_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BadFile:
    """A file that was skipped, and why."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Scan:
    """The readable files by kernel id, and those that were skipped; both in order of kernel id."""

    files: Mapping[str, ResourceFile]
    bad: tuple[BadFile, ...]


def scan(root: Path) -> Scan:
    """Read `<root>/<kernel>/config/resource.txt` of every kernel.

    A kernel without the file has just ended and is passed over; any other trouble is reported by name and hides
    nothing else. Raises Refused when the root itself cannot be read.
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
            text = _read(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            bad.append(BadFile(path, f"cannot be read: {error.strerror}"))
            continue
        parsed = parse(text) if isinstance(text, str) else text
        if isinstance(parsed, BadText):
            bad.append(BadFile(path, parsed.reason))
        else:
            files[kernel] = parsed
    return Scan(files, tuple(bad))


def put(root: Path, kernel: str, file: ResourceFile, owner: tuple[int, int] | None = None) -> None:
    """Write a kernel's file so that a reader finds all of it or none.

    The kernel's directory is made if need be and given to `owner` (uid, gid); `config` and the file in it stay this
    process's, readable for all. The root is made again where somebody removed it under the running server. Raises
    BackendFailed when the disk refuses, or the owner has put something else in the file's place.
    """
    home = root / kernel
    try:
        if not root.is_dir():
            root.mkdir()
            root.chmod(0o755 if os.geteuid() == 0 else 0o700)
        with contextlib.suppress(FileExistsError):
            home.mkdir(mode=0o700)
            if owner is not None:
                os.chown(home, *owner)
        with _opened(home, make=True) as config:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_FRESH, dir_fd=config)
            fd = os.open(_FRESH, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=config)
            with open(fd, "w") as text:
                os.fchmod(fd, 0o644)
                text.write(render(file))
            os.replace(_FRESH, _NAME, src_dir_fd=config, dst_dir_fd=config)
    except OSError as error:
        raise BackendFailed(f"{home / 'config' / _NAME} cannot be written: {error.strerror}") from error


def drop(root: Path, kernel: str) -> None:
    """Remove a kernel's file. Raises BackendFailed."""
    try:
        with _opened(root / kernel) as config:
            os.unlink(_NAME, dir_fd=config)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise BackendFailed(f"{root / kernel / 'config' / _NAME} cannot be removed: {error.strerror}") from error


@contextlib.contextmanager
def _opened(home: Path, *, make: bool = False) -> Iterator[int]:
    """The directory that a kernel's file is in. Its owner may move things about: no symbolic link is followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    above = os.open(home, flags)
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir("config", 0o755, dir_fd=above)
        config = os.open("config", flags, dir_fd=above)
    finally:
        os.close(above)
    try:
        if make and os.fstat(config).st_uid == os.geteuid():
            # Whatever this process's umask left of the mode.
            os.fchmod(config, 0o755)
        yield config
    finally:
        os.close(config)


def tidy(root: Path, kernel: str) -> None:
    """Remove a kernel's directories as far as nothing is in them."""
    with contextlib.suppress(OSError):
        (root / kernel / "config").rmdir()
        (root / kernel).rmdir()


def _read(path: Path) -> str | BadText:
    """The text; a link is not followed, for its owner may not be allowed to read what a root server reads."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return BadText("is a symbolic link, which is not followed")
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return BadText("is not a regular file")
        content = os.read(fd, _MOST_BYTES + 1)
    finally:
        os.close(fd)
    if len(content) > _MOST_BYTES:
        return BadText(f"is larger than {_MOST_BYTES} bytes, which no resource file is")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return BadText("is not UTF-8 text")
