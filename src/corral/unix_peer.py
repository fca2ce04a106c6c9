"""The process at the other end of a Unix socket, and the names of users."""

import pwd
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


def user_name(uid: int) -> str:
    """The name of a user. If the user has no name, as in some containers, the uid as text."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
