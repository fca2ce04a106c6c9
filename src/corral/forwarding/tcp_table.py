"""The TCP sockets that the kernel lists for this network namespace."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

_LISTENS = "0A"
_TABLES = (("/proc/net/tcp", socket.AF_INET), ("/proc/net/tcp6", socket.AF_INET6))
_WORD_DIGITS = 8


class TcpSocket(NamedTuple):
    """One row of the kernel's table.

    Attributes:
        family: AF_INET or AF_INET6.
        local, remote: address and port.
        uid: the owner; it means nothing once no process has the socket open.
        inode: the number of the socket; 0 once no process has it open, or before one has accepted it.
    """

    family: int
    local: tuple[str, int]
    remote: tuple[str, int]
    uid: int
    inode: int


def listening_sockets() -> Iterator[TcpSocket]:
    """Return the sockets that listen. Raises OSError where there is no /proc."""
    return _rows(lambda local, remote, state: state == _LISTENS)


def sockets_between(local_port: int, remote_port: int) -> Iterator[TcpSocket]:
    """Return the sockets with these ports. Raises OSError where there is no /proc."""
    ends = f":{local_port:04X}", f":{remote_port:04X}"
    return _rows(lambda local, remote, state: local.endswith(ends[0]) and remote.endswith(ends[1]))


def _rows(wanted: Callable[[str, str, str], bool]) -> Iterator[TcpSocket]:
    # A busy host has thousands of rows, so few are read in full.
    for path, family in _TABLES:
        try:
            with open(path, encoding="ascii") as table:
                rows = table.readlines()[1:]
        except FileNotFoundError:
            if family == socket.AF_INET6:
                # The kernel has no IPv6.
                continue
            raise
        for row in rows:
            _, local, remote, state, _, _, _, uid, _, inode, *_ = row.split(None, 10)
            if wanted(local, remote, state):
                yield TcpSocket(family, _end(family, local), _end(family, remote), int(uid), int(inode))


def _end(family: int, text: str) -> tuple[str, int]:
    address, _, port = text.partition(":")
    # The kernel prints each word of 32 bits in the order of this machine.
    words = [bytes.fromhex(address[at : at + _WORD_DIGITS]) for at in range(0, len(address), _WORD_DIGITS)]
    packed = b"".join(_in_network_order(word) for word in words)
    return socket.inet_ntop(family, packed), int(port, 16)


def _in_network_order(word: bytes) -> bytes:
    return word[::-1] if sys.byteorder == "little" else word
