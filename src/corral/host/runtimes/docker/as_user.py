"""Finds out which parts of this host the job's user may see, by a child process that becomes that user.

A user's path may lead anywhere, and its lookup may hang. The child is forked and executes nothing, so the user need not
be able to reach the server's Python.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Callable

from corral.as_login import become
from corral.host.runtimes.docker.records import HostUser

_ANSWER_S = 5.0
_PIECE_BYTES = 65536


def said_as(who: HostUser, look: Callable[[], bytes]) -> bytes | None:
    """Return the result of `look` in a child that runs as this user; None if it raises, or takes more than 5 s."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _tell(who, look, writer)
    os.close(writer)
    said = answer_of(child, reader, _ANSWER_S)
    return said[1:] if said else None


def answer_of(child: int, reader: int, limit_s: float) -> bytes | None:
    """Return all that the child writes before it closes its pipe; None if that takes longer than `limit_s`. Kills the
    child and closes `reader`.
    """
    try:
        said = _read(reader, time.monotonic() + limit_s)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
    _reap(child, answered=said is not None)
    return said


def opened_as(who: HostUser, look: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes] | None:
    """Return the descriptor and the text that `look` returns in a child that runs as this user. None if `look` raises,
    or takes more than 5 s.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            _become(who)
            fd, words = look()
            socket.send_fds(theirs, [words], [fd])
        finally:
            os._exit(0)
    theirs.close()
    fds: list[int] = []
    answered = True
    try:
        ours.settimeout(_ANSWER_S)
        said, fds, _, _ = socket.recv_fds(ours, _PIECE_BYTES, 1)
    except TimeoutError:
        answered = False
    finally:
        ours.close()
        os.kill(child, signal.SIGKILL)
    _reap(child, answered=answered)
    return (fds[0], said) if fds else None


def _become(who: HostUser) -> None:
    if os.geteuid() == 0 and who.uid != 0:
        become(who.uid, who.gid, who.groups)


def _reap(child: int, *, answered: bool) -> None:
    # A child that hangs in the kernel can be neither killed nor reaped.
    os.waitpid(child, 0 if answered else os.WNOHANG)


def _tell(who: HostUser, look: Callable[[], bytes], writer: int) -> None:
    """Do the work of the child. It writes one byte before the result, so that an empty result differs from a
    failure.
    """
    try:
        _become(who)
        said = b"+" + look()
        while said:
            said = said[os.write(writer, said) :]
    finally:
        os._exit(0)


def _read(reader: int, until: float) -> bytes | None:
    """Return the bytes until the other end is closed; None if that takes too long."""
    said = bytearray()
    ready = select.poll()
    ready.register(reader, select.POLLIN)
    while ready.poll(max(0.0, until - time.monotonic()) * 1000):
        piece = os.read(reader, _PIECE_BYTES)
        if not piece:
            return bytes(said)
        said += piece
    return None
