"""Marks the GPUs that a server of this host manages. A second server on the same GPUs then warns of the first.

A mark is a socket in the kernel's abstract namespace: it needs no file, ends with its process, and names its owner. Any
user may make a mark for any GPU. Marks are therefore good for a warning, and no decision depends on them.
"""

import contextlib
import pwd
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from corral.unix_peer import peer_of

_NAME = "\0corral/gpu/"
_LONGEST = 107


@dataclass(frozen=True)
class Holder:
    """The process that has marked a GPU."""

    pid: int
    user: str


@contextlib.contextmanager
def claimed(uuids: Iterable[str]) -> Iterator[None]:
    """Keep the marks of these GPUs, except those that another process has already."""
    with contextlib.ExitStack() as marks:
        for uuid in uuids:
            mark = marks.enter_context(_socket())
            with contextlib.suppress(OSError):
                mark.bind(_name(uuid))
                mark.listen()
        yield


def holder_of(uuid: str) -> Holder | None:
    """The process that has marked a GPU; None if none has, or it cannot be determined."""
    with _socket() as probe:
        try:
            probe.connect(_name(uuid))
            pid, uid, _ = peer_of(probe)
        except OSError:
            return None
    try:
        return Holder(pid, pwd.getpwuid(uid).pw_name)
    except KeyError:
        return Holder(pid, f"user {uid}")


def warning_of_others(gpus: Mapping[str, int], own_pid: int) -> str | None:
    """A warning if processes other than the server `own_pid` have marked some of its GPUs, with their indices."""
    taken: dict[Holder, list[int]] = {}
    for uuid, index in gpus.items():
        holder = holder_of(uuid)
        if holder is not None and holder.pid != own_pid:
            taken.setdefault(holder, []).append(index)
    if not taken:
        return None
    whose = "; ".join(
        f"GPU {', '.join(map(str, indices))} to the one of {holder.user} (process {holder.pid})"
        for holder, indices in taken.items()
    )
    return (
        f"another server manages GPUs of this one too: {whose}. Each takes jobs of the other for processes outside "
        "Corral, and both may start jobs on a GPU at the same moment; use one of them, and stop the other"
    )


def _socket() -> socket.socket:
    # Non-blocking: the process that has marked a GPU need not answer.
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)


def _name(uuid: str) -> bytes:
    return f"{_NAME}{uuid}".encode(errors="replace")[:_LONGEST]
