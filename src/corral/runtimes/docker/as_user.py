"""What the job's user may see of this host: asked by a child process that has become that user.

A path of a user's may lead anywhere, and looking it up may hang. The child is forked and executes nothing, so the user
need not be able to reach the server's Python.
"""

import os
import select
import signal
import time
from collections.abc import Callable

from corral.runtimes.docker.records import HostUser

_ANSWER_S = 5.0
_PIECE_BYTES = 65536


def said_as(who: HostUser, look: Callable[[], bytes]) -> bytes | None:
    """What `look` returns in a child that is this user; None where it raises, or takes more than 5 s."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _tell(who, look, writer)
    os.close(writer)
    try:
        said = _read(reader, time.monotonic() + _ANSWER_S)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
    if said is None:
        # It may hang in the kernel, where it can be neither killed nor reaped.
        os.waitpid(child, os.WNOHANG)
    else:
        os.waitpid(child, 0)
    return said[1:] if said else None


def _tell(who: HostUser, look: Callable[[], bytes], writer: int) -> None:
    """All that the child does. A byte goes before what it says, so that nothing said is not taken for a failure."""
    try:
        if os.geteuid() == 0 and who.uid != 0:
            os.setgroups(who.groups)
            os.setresgid(who.gid, who.gid, who.gid)
            os.setresuid(who.uid, who.uid, who.uid)
        said = b"+" + look()
        while said:
            said = said[os.write(writer, said) :]
    finally:
        os._exit(0)


def _read(reader: int, until: float) -> bytes | None:
    """All that comes until the other end is closed; None where that takes too long."""
    said = bytearray()
    ready = select.poll()
    ready.register(reader, select.POLLIN)
    while ready.poll(max(0.0, until - time.monotonic()) * 1000):
        piece = os.read(reader, _PIECE_BYTES)
        if not piece:
            return bytes(said)
        said += piece
    return None
