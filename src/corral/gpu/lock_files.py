"""One lock file per GPU of this host, so that leases do not collide without a server, or within a job.

The locks are the kernel's (flock): they end with the process that holds them, however it ends. The directory is shared
by all users and sticky. Its files are only locked: their content is never trusted, and links are never followed.
"""

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from corral.core.model.errors import BackendFailed
from corral.core.model.units import is_whole

DIRECTORY = Path("/tmp/corral-leases")
DEPTH = "CORRAL_RESERVATION_DEPTH"
"""The number of nested commands with GPUs of a reservation around this process.

The outer commands have already locked its GPUs, so each level locks files of its own.
"""
_DEPTH_DIGITS = 3
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def take(uuid: str, *, shared: bool = False) -> int | None:
    """Lock the GPU for this process alone, or `shared` with others that say so.

    Returns a descriptor for `give_back`; None if another process has it.
    """
    descriptor = _open(uuid)
    return descriptor if _lock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX) else None


def give_back(descriptor: int) -> None:
    """Unlock, also for children that inherited the descriptor by a fork."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def is_leased(uuid: str) -> bool:
    """Return whether some process has locked the GPU now. Creates no file."""
    try:
        descriptor = os.open(DIRECTORY / _file_name(uuid), _OPEN)
    except OSError:
        return False
    if _lock(descriptor, fcntl.LOCK_SH):
        give_back(descriptor)
        return False
    return True


def _lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True


def _open(uuid: str) -> int:
    _make_directory()
    path = DIRECTORY / _file_name(uuid)
    while True:
        try:
            # Opening a file of another user with O_CREAT is forbidden in a sticky directory.
            return os.open(path, _OPEN)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, _OPEN | os.O_CREAT | os.O_EXCL, 0o444)
                os.fchmod(descriptor, 0o444)
                return descriptor
        except OSError as error:
            raise BackendFailed(f"cannot open {path}: {error.strerror}") from error


def _make_directory() -> None:
    try:
        DIRECTORY.mkdir()
        DIRECTORY.chmod(0o1777)
    except FileExistsError:
        if not stat.S_ISDIR(DIRECTORY.lstat().st_mode):
            raise BackendFailed(f"{DIRECTORY} is not a directory, but locks are kept there; move it away") from None
    except OSError as error:
        raise BackendFailed(f"cannot create {DIRECTORY}: {error.strerror}") from error


def depth() -> int:
    """The number in `DEPTH`, 0 without one."""
    given = os.environ.get(DEPTH, "")
    return int(given) if is_whole(given) and len(given) < _DEPTH_DIGITS else 0


def _file_name(uuid: str) -> str:
    within = f".{deep}" if (deep := depth()) else ""
    return "".join(char if char.isalnum() or char in "-." else "_" for char in uuid) + f"{within}.lock"
