"""Which TCP ports the processes of this job listen on, seen from inside of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from corral.forwarding.tcp_table import listening_sockets

_SOCKET = "socket:["
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Listener(NamedTuple):
    """A socket of this job that listens.

    Attributes:
        address: an address at which a process of this host reaches it.
        inode: the number by which the kernel knows the socket.
    """

    family: int
    address: str
    port: int
    inode: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class JobPorts:
    """The listeners of the job in which this process was started as a command.

    Processes of other users are not looked into, so their listeners are never among these.
    """

    def __init__(self) -> None:
        keeper = os.getppid()
        # In a container the parent is outside, and all processes that can be seen are the job's.
        self._supervisor = _parent(keeper) if keeper > 1 else None

    def listeners(self) -> list[Listener]:
        """Return all of them in the order of their ports, those of IPv4 first."""
        listening = {one.inode: one for one in listening_sockets()}
        found = {}
        for pid in self._processes():
            for inode in _sockets_of(pid):
                one = listening.get(inode)
                if one is not None:
                    address, port = one.local
                    found[inode] = Listener(one.family, _ANY.get(address, address), port, inode)
        return sorted(found.values(), key=lambda one: (one.port, one.family))

    def _processes(self) -> Iterator[int]:
        parents = {pid: _parent(pid) for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal())}
        if self._supervisor is None:
            yield from parents
            return
        for pid in parents:
            above: int | None = pid
            for _ in range(len(parents)):
                above = parents.get(above) if above is not None else None
                if above is None or above == self._supervisor:
                    break
            if above == self._supervisor:
                yield pid


def still_listens(listener: Listener) -> bool:
    """Return whether the same socket listens as before."""
    return any(one.inode == listener.inode for one in listening_sockets())


def _parent(pid: int) -> int | None:
    """Return the parent of a process, None if it does not exist (any more) or has none that is visible here."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The name is in parentheses and may hold any bytes.
            return int(stat.read().rpartition(b")")[2].split()[1]) or None
    except (OSError, IndexError):
        return None


def _sockets_of(pid: int) -> Iterator[int]:
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for fd in fds:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith(_SOCKET):
            yield int(target[len(_SOCKET) : -1])


def connecting_to(listener: Listener) -> socket.socket:
    """Return a socket that is being connected to a listener. Raises OSError."""
    sock = socket.socket(listener.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(BlockingIOError):
            sock.connect((listener.address, listener.port))
    except BaseException:
        sock.close()
        raise
    return sock
