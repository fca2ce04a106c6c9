"""A scratch root: one `resource.txt` per running job, some gone or damaged by the time they are read."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.model.errors import BackendFailed, Refused
from corral.sharing.resource_txt import BadText, ResourceFile, parse, render

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

    The kernel's directory is made if need be and given to `owner` (uid, gid); the file stays this process's, readable
    for all. Raises BackendFailed when the disk refuses.
    """
    home = root / kernel
    target = home / "config" / "resource.txt"
    try:
        with contextlib.suppress(FileExistsError):
            home.mkdir(mode=0o700)
            if owner is not None:
                os.chown(home, *owner)
        target.parent.mkdir(mode=0o755, exist_ok=True)
        fresh = target.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with open(fd, "w") as text:
            os.fchmod(fd, 0o644)
            text.write(render(file))
        fresh.replace(target)
    except OSError as error:
        raise BackendFailed(f"{target} cannot be written: {error.strerror}") from error


def drop(root: Path, kernel: str) -> None:
    """Remove a kernel's file. Raises BackendFailed."""
    target = root / kernel / "config" / "resource.txt"
    try:
        target.unlink(missing_ok=True)
    except NotADirectoryError:
        return
    except OSError as error:
        raise BackendFailed(f"{target} cannot be removed: {error.strerror}") from error


def tidy(root: Path, kernel: str) -> None:
    """Remove a kernel's directories as far as nothing is in them."""
    with contextlib.suppress(OSError):
        (root / kernel / "config").rmdir()
        (root / kernel).rmdir()


def _read(path: Path) -> str | BadText:
    if path.exists() and not path.is_file() and not path.is_dir():
        return BadText("is not a regular file")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        return BadText(f"is larger than {_MOST_BYTES} bytes, which no resource file is")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return BadText("is not UTF-8 text")
