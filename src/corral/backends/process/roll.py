"""The roll: a line for each launch that a supervisor claimed, in one file beside the records of them all.

Where the server is not root's a job runs as the server's own user, and may remove its record, claim and all. What
stands here still says that it ran, so that it is not run again. Lines are not flushed: they have to outlive a server,
and after a crash of the machine the claims, which are flushed, are enough.
"""

import os

from .procfs import read_file

_LINES_KEPT = 10_000
"""Far more than can be claimed before the ledger, too, says of the first of them that it runs."""


def enter(path: str, name: str) -> None:
    """Add a launch. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{name}\n".encode())
    finally:
        os.close(fd)


def names(path: str) -> list[str]:
    """Every launch on the roll, oldest first; none when there is no roll. Raises OSError."""
    try:
        return read_file(path).decode().split()
    except FileNotFoundError:
        return []


def shorten(path: str) -> None:
    """Drop the oldest lines of a long roll. Raises OSError."""
    known = names(path)
    if len(known) > _LINES_KEPT:
        shorter = f"{path}.{os.getpid()}"
        with open(shorter, "w", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in known[-_LINES_KEPT:])
        os.rename(shorter, path)
