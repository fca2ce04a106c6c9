"""Has the kernel refuse system calls to a process and to what it starts, as a container's filter does."""

import ctypes
import errno
import platform
import struct

_NUMBERS = {
    "x86_64": {"kill": 62, "keyctl": 250, "pidfd_open": 434},
    "aarch64": {"kill": 129, "keyctl": 219, "pidfd_open": 434},
}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def forbid(call: str, answer: int = errno.ENOSYS) -> None:
    """From here on this system call fails with that error. Raises OSError."""
    number = _NUMBERS[platform.machine()][call]
    steps = (
        (_LOAD_WORD, 0, 0, 0),
        (_JUMP_IF_EQUAL, 0, 1, number),
        (_RETURN, 0, 0, _ERRNO | answer),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value, more in (
        (_PR_SET_NO_NEW_PRIVS, 1, None),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program)),
    ):
        if libc.prctl(option, value, more, 0, 0):
            raise OSError(ctypes.get_errno(), f"prctl {option}")
