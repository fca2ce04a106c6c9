"""Files that a job reads and writes itself, opened as its user before its program is executed."""

import errno
import os
import stat

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NULL = os.makedev(1, 3)


class FileFailed(Exception):
    """A file for input cannot be read, or one for output cannot be written; the message is for the job's user."""


def open_input(path: str) -> int:
    """Open the file for reading. Anything but a regular file is refused: it could block. Raises FileFailed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise FileFailed(f"cannot read the input from {path}: {error.strerror}") from error
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) and found.st_rdev != _NULL:
        os.close(fd)
        raise FileFailed(f"cannot read the input from {path}: it is not a file")
    os.set_blocking(fd, True)
    return fd


def open_outputs(
    output: str | None, error: str | None, append: bool, pipe: int, error_pipe: int = -1
) -> tuple[int, int]:
    """What standard output and standard error are to be: a file each, the same one, or the pipe to the log.

    Standard error goes where standard output does unless it has a file or a pipe of its own. Seen from the job's
    directory, under its umask. Raises FileFailed.
    """
    if error_pipe >= 0:
        return pipe, error_pipe
    first = pipe if output is None else _open(output, append)
    if error is None or error == output:
        return first, first
    try:
        return first, _open(error, append)
    except FileFailed:
        close_outputs(first, first, pipe)
        raise


def close_outputs(first: int, second: int, pipe: int) -> None:
    """Close what `open_outputs` has opened."""
    for fd in {first, second} - {pipe}:
        os.close(fd)


def _open(path: str, append: bool) -> int:
    """Open the file, emptied unless it is appended to. Anything but a regular file is refused: it could block."""
    try:
        fd = os.open(path, _FLAGS, 0o666)
    except OSError as error:
        why = "it is a symbolic link, and none is followed" if error.errno == errno.ELOOP else error.strerror
        if error.errno == errno.ENXIO:
            why = "it is not a file"
        raise FileFailed(f"cannot write the output to {path}: {why}") from error
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and not append:
            os.ftruncate(fd, 0)
        elif not stat.S_ISREG(found.st_mode) and found.st_rdev != _NULL:
            raise FileFailed(f"cannot write the output to {path}: it is not a file")
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd
