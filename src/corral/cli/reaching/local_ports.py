"""Ports of this machine's loopback, for connections of this user alone."""

import os
import socket

from corral.core.model.errors import BackendFailed, Refused
from corral.forwarding.tcp_table import listening_sockets, sockets_between

HERE = "127.0.0.1"
_MAPPED = "::ffff:"
_BACKLOG = 64


def refuse_unseen() -> None:
    """Raise BackendFailed on a machine where it cannot be seen whose a connection is."""
    try:
        next(listening_sockets(), None)
    except OSError:
        raise BackendFailed(
            "this machine does not show whose its connections are (/proc/net/tcp), so any user of it could come in; "
            "use `corral ssh --config` and `ssh -L` if you trust them"
        ) from None


def listening_at(port: int, *, any_other: bool) -> socket.socket:
    """Return a socket that listens at a port of the loopback; with `any_other` at a free one if it is taken.

    Raises Refused if it is taken.
    """
    listener = socket.socket()
    try:
        try:
            listener.bind((HERE, port))
        except OSError as error:
            if not any_other:
                raise Refused(f"port {port} of this machine cannot be used: {error.strerror}", field="port") from None
            listener.bind((HERE, 0))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def is_own(connection: socket.socket) -> bool:
    """Return whether a process of this user holds the other end of a connection within this machine.

    False if that cannot be seen, as when it was closed: the kernel then no longer says whose it was.
    """
    peer, here = connection.getpeername(), connection.getsockname()
    uid = os.getuid()
    try:
        rows = [
            one for one in sockets_between(peer[1], here[1]) if _plain(one.local) == peer and _plain(one.remote) == here
        ]
    except (OSError, ValueError):
        return False
    return bool(rows) and all(one.inode != 0 and one.uid == uid for one in rows)


def _plain(end: tuple[str, int]) -> tuple[str, int]:
    """An end with an IPv4 address as such: a socket of IPv6 may have it inside of its own."""
    address, port = end
    return address.removeprefix(_MAPPED), port
