"""What the kernel tells of a process through a pidfd, also of one that is nobody's child here."""

import fcntl
import os
import struct

_INFO = struct.Struct("=QQ11Ii")
"""`struct pidfd_info` of linux/pidfd.h, as first published: mask, cgroup id, eleven ids, exit status; 64 bytes."""

_EXIT = 1 << 3
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
"""The request PIDFD_GET_INFO: _IOWR(0xFF, 11, struct pidfd_info)."""


def exit_status(pidfd: int) -> int | None:
    """The exit code of a process that was reaped, negative for a signal.

    None while it runs or waits for its parent to reap it, and always on kernels before Linux 6.15, which do not tell.
    """
    info = bytearray(_INFO.size)
    _INFO.pack_into(info, 0, _EXIT, *([0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, info)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(info)
    return os.waitstatus_to_exitcode(status) if mask & _EXIT else None
