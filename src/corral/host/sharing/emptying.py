"""Empties the directory of an ended job, with processes of the job's user.

Whatever the user does to the directory meanwhile, only files that the user may remove are removed. A file system that
does not answer delays no other job.
"""

import os
import re
import stat
import subprocess

from corral.as_login import command_as
from corral.core.model.errors import BackendFailed

LIMIT_S = 120.0
"""The time limit of each command in seconds. The next server removes the rest."""
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
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return f"{command[1]} did not end within {LIMIT_S:g} s"
    except OSError as error:
        return f"{command[1]} cannot be run: {error.strerror}"
    return f"something in it cannot be removed by user {owner.st_uid}" if done.returncode else ""
