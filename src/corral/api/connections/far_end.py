"""Find the user whose process is at the other end of a TCP connection within this machine (sock_diag(7), proc(5))."""

import errno
import socket
import struct
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from corral.core.model.devices.address import is_loopback, plain_address

_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NLMSG_ERROR = 2
_NETLINK_SOCK_DIAG = 4
_ANY_STATE = 0xFFFF_FFFF
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_CONNECTION = struct.Struct("!HH16s16s")
_ANY_INTERFACE_AND_COOKIE = struct.pack("=I", 0) + b"\xff" * 8
_OWNER = struct.Struct("=II")
_OWNER_AT = _HEADER.size + 4 + _CONNECTION.size + 12 + 12
"""The owner's offset: after four bytes, the connection, its interface and cookie, three numbers (`inet_diag_msg`)."""

_ANSWER_TIMEOUT_S = 1.0

Place = tuple[str, int]
"""A numeric address without its interface, and a port. An IPv4 address is written as IPv4, not as IPv6."""


class _Owner(NamedTuple):
    uid: int
    inode: int


class FarEnd:
    """The other end of one TCP connection. Its user is looked up once, at the first use."""

    def __init__(self, near: Place, far: Place) -> None:
        self._near = _plain(near)
        self._far = _plain(far)

    @cached_property
    def on_this_machine(self) -> bool:
        """Whether the other end has an address of this machine."""
        if is_loopback(self._near[0]) or is_loopback(self._far[0]) or self._far[0] == self._near[0]:
            return True
        with socket.socket(socket.AF_INET6 if ":" in self._far[0] else socket.AF_INET) as probe:
            try:
                probe.bind((self._far[0], 0))
            except OSError as error:
                return error.errno != errno.EADDRNOTAVAIL
        return True

    @cached_property
    def uid(self) -> int | None:
        """The user who made the socket at the other end; None if it is not known."""
        owner = _owner(self._far, self._near)
        # The kernel shows a socket that no process has open any more as root's, from then on for ever. So the first
        # look-up is true if the second one still agrees.
        if owner is None or not owner.inode or _owner(self._far, self._near) != owner:
            return None
        return None if owner.uid == _stands_for_strangers() else owner.uid


def _plain(place: Place) -> Place:
    return plain_address(place[0]), place[1]


def _owner(local: Place, remote: Place) -> _Owner | None:
    """The owner of the socket that has these two addresses, as seen from its own side. None if it is not found."""
    try:
        return _owner_by_netlink(local, remote)
    except OSError:
        # There is no such socket, or this kernel or sandbox has no sock_diag for TCP.
        return _owner_by_table(local, remote)


def _owner_by_netlink(local: Place, remote: Place) -> _Owner:
    """The owner of the socket, by netlink. Raises OSError, with ENOENT if there is no such socket."""
    family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
    connection = _CONNECTION.pack(local[1], remote[1], _packed(family, local[0]), _packed(family, remote[0]))
    asked = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE) + connection + _ANY_INTERFACE_AND_COOKIE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(_ANSWER_TIMEOUT_S)
        netlink.send(_HEADER.pack(_HEADER.size + len(asked), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + asked)
        answer = netlink.recv(8192)
    if _HEADER.unpack_from(answer)[1] == _NLMSG_ERROR:
        raise OSError(-struct.unpack_from("=i", answer, _HEADER.size)[0], "sock_diag")
    return _Owner(*_OWNER.unpack_from(answer, _OWNER_AT))


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address).ljust(16, b"\0")


def _owner_by_table(local: Place, remote: Place) -> _Owner | None:
    """The owner of the socket, by /proc/net/tcp and tcp6. An IPv4 connection may be in either file."""
    for name, mapped in (("tcp", False), ("tcp6", True)):
        if ":" in local[0] and not mapped:
            continue
        wanted = [_as_listed(local, mapped), _as_listed(remote, mapped)]
        try:
            with Path(f"/proc/self/net/{name}").open() as table:
                for line in table:
                    if (fields := line.split())[1:3] == wanted:
                        return _Owner(int(fields[7]), int(fields[9]))
        except OSError:
            continue
    return None


def _as_listed(place: Place, mapped: bool) -> str:
    """An address and port as in the tables of proc(5): the words of the address are in this machine's byte order."""
    address = f"::ffff:{place[0]}" if mapped and ":" not in place[0] else place[0]
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{place[1]:04X}"


def _stands_for_strangers() -> int | None:
    """The uid under which this user namespace shows all users that it does not know. None if it knows all users."""
    try:
        first, outside, count = Path("/proc/self/uid_map").read_text().split()[:3]
        if (first, outside, count) == ("0", "0", "4294967295"):
            return None
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return 65534
