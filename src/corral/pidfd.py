"""Signals to a process, and its exit status, through a pidfd; also for processes that are not children of this one.

A pid may come to mean another process at any moment. A descriptor never does.
"""

import fcntl
import os
import signal
import struct
from collections.abc import Callable

_INFO = struct.Struct("=QQ11Ii")
"""`struct pidfd_info` of linux/pidfd.h, as first published: mask, cgroup id, eleven ids, exit status; 64 bytes."""

_EXIT = 1 << 3
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
"""The request PIDFD_GET_INFO: _IOWR(0xFF, 11, struct pidfd_info)."""


def send_if(pid: int, number: int, is_meant: Callable[[], bool]) -> bool:
    """Signal the process with this pid, never a later one, if `is_meant` confirms it. Return whether it was sent.

    `is_meant` examines the process that has the pid then. Raises OSError if no descriptor can be had.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not is_meant():
            return False
        signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(handle)
    return True


def exit_status(pidfd: int) -> int | None:
    """The exit code of a process that was reaped, negative for a signal.

    None while it runs or waits for its parent to reap it, and always on kernels before Linux 6.15.
    """
    info = bytearray(_INFO.size)
    _INFO.pack_into(info, 0, _EXIT, *([0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, info)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(info)
    return os.waitstatus_to_exitcode(status) if mask & _EXIT else None
