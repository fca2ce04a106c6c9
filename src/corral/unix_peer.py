"""The process at the other end of a Unix socket."""

import socket
import struct
from typing import NamedTuple

_UCRED = struct.Struct("3i")


class Peer(NamedTuple):
    """A process as the kernel reports it (SO_PEERCRED, unix(7)). `pid` is 0 if it is not visible from here."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """The process that opened a connection, or that listens at its other end. Raises OSError."""
    return Peer(*_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))
