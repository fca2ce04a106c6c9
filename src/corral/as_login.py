"""Becomes a user as a login does: the process keeps nothing of the server that starts it, except as in decision 84.

    python as_login.py UID GID GROUPS PROGRAM [ARGUMENT ...]

executes a program in this way, for root. GROUPS are numbers with commas between them, or "-". Only root's server has
anything that its users do not own. It needs only the standard library: it runs where little of Corral is loaded.
"""

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

_JOIN_SESSION_KEYRING, _SET_PERMISSIONS, _LINK = 1, 5, 8
_SESSION_KEYRING, _USER_KEYRING = -3, -4
_VIEWED_READ_AND_SEARCHED = 0x0B000000
"""Permissions for the possessors of the keyring; others have none."""
_KEYCTL = {"x86_64": 250, "aarch64": 219, "ppc64le": 271}
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273}

_FILTERED = (errno.ENOSYS, errno.EPERM, errno.EACCES)
"""The errors of a filter of system calls, for example of a container's."""

_PR_SET_DUMPABLE, _PR_SET_SECUREBITS, _PR_SET_TIMERSLACK = 4, 28, 29
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_TIMER_SLACK_NS = 50_000
_CAPABILITY_VERSION_3 = 0x20080522
_IO_OF_PROCESS, _IO_BY_NICENESS = 1, 0

_CANNOT_RUN = 126

_libc = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Capabilities(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def leave_login() -> None:
    """Replace the server's session keyring by an empty one that nobody can write to, and reset the login user id.

    It is for a process of root that becomes another user, or starts processes that do; once is enough. Raises OSError
    if the kernel has keyrings and this process cannot have one.
    """
    if os.geteuid() == 0:
        _seal_keyring()
        _tell_kernel("/proc/self/loginuid", b"4294967295")


@functools.cache
def _seal_keyring() -> None:
    """Replace the keyring once, for this process and those that it forks; again if it failed."""
    try:
        _keyctl(_JOIN_SESSION_KEYRING, None)
        _keyctl(_SET_PERMISSIONS, _SESSION_KEYRING, _VIEWED_READ_AND_SEARCHED)
    except OSError as error:
        if error.errno not in _FILTERED:
            raise


def take_login_standing(niceness: int = 0) -> None:
    """Give this process of root the memory, scheduling and capability settings of a login."""
    if os.geteuid() != 0:
        return
    _tell_kernel("/proc/self/oom_score_adj", b"0")
    _tell_kernel("/proc/self/coredump_filter", b"0x33")
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    _libc.syscall(_IOPRIO_SET.get(os.uname().machine, -1), _IO_OF_PROCESS, 0, _IO_BY_NICENESS)
    _libc.personality(0)
    _prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _prctl(_PR_SET_SECUREBITS, 0)
    header, held = _CapabilityHeader(_CAPABILITY_VERSION_3, 0), (_Capabilities * 2)()
    if _libc.capget(ctypes.byref(header), held) == 0:
        held[0].inheritable = held[1].inheritable = 0
        _libc.capset(ctypes.byref(header), held)


def become(uid: int, gid: int, groups: Sequence[int], niceness: int = 0) -> None:
    """Become this user for good, with the settings and the session keyring of a login. Raises OSError."""
    leave_login()
    take_login_standing(niceness)
    take_identity(uid, gid, groups)
    take_own_keyring()


def take_identity(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Take the user and groups for good, without any right of root. Raises OSError."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if uid != 0:
        _drop_capabilities()


def take_own_keyring() -> None:
    """Give this process a session keyring of its own, linked to its user's keyring.

    Raises OSError if it would keep the server's keyring. If a filter forbids keyrings, it keeps what it has.
    """
    try:
        _keyctl(_JOIN_SESSION_KEYRING, None)
    except OSError:
        # The user may have reached the limit of keys: then the empty keyring must do. If that fails too, it raises.
        _seal_keyring()
        return
    with suppress(OSError):
        _keyctl(_LINK, _USER_KEYRING, _SESSION_KEYRING)


def command_as(uid: int, gid: int, groups: Sequence[int], command: Sequence[str]) -> list[str]:
    """The command line by which root executes a command as this user."""
    of_user = (str(uid), str(gid), ",".join(map(str, groups)) or "-")
    return [sys.executable, "-I", "-S", "-X", "utf8", os.path.abspath(__file__), *of_user, *command]


@functools.cache
def keyring_shared() -> str | None:
    """The reason why processes that root's server starts here keep its session keyring; None if each has its own.

    Processes of a server that is not root's belong to the same user, and keep that user's keyring.
    """
    if os.geteuid() != 0 or not os.path.exists("/proc/keys"):
        return None
    try:
        # No keyring has this number: nothing is changed.
        _keyctl(_LINK, 0, 0)
    except OSError as error:
        return os.strerror(error.errno or 0) if error.errno in _FILTERED else None
    return None


def _keyctl(operation: int, *arguments: int | None) -> None:
    number = _KEYCTL.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "the number of this call is not known for this kind of machine")
    words = (ctypes.c_long(0 if one is None else one) for one in arguments)
    if _libc.syscall(ctypes.c_long(number), ctypes.c_long(operation), *words) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _prctl(option: int, value: int) -> None:
    _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _drop_capabilities() -> None:
    """Drop the rights of root that remain if the kernel was told to keep some after the change of user."""
    header, none = _CapabilityHeader(_CAPABILITY_VERSION_3, 0), (_Capabilities * 2)()
    if _libc.capset(ctypes.byref(header), none) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    # The memory still holds root's data: the user must not read it until a program is executed.
    _prctl(_PR_SET_DUMPABLE, 0)


def _tell_kernel(path: str, word: bytes) -> None:
    with suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, word)
        finally:
            os.close(fd)


def _execute(command: list[str]) -> None:
    """Like os.execvp, which imports modules that the user may not be able to read. Raises OSError."""
    places = [""] if "/" in command[0] else [f"{at}/" for at in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    for place in places:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.execv(place + command[0], command)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def main(words: Sequence[str]) -> int:
    """Execute a program as a user. Returns only on failure, with the exit code of a shell."""
    uid, gid, groups, *command = words
    try:
        become(int(uid), int(gid), [] if groups == "-" else [int(group) for group in groups.split(",")])
        _execute(command)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]} as user {uid}: {error.strerror}\n")
    return _CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
