"""Keeps a process that sends for a plain user from everything that the user could not reach from outside.

The check is made where Python makes the system call (PEP 578), on the address of the connection. So no plugin, redirect
or name that changes its address between two look-ups can bypass it.
"""

import socket
import sys
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any

Network = IPv4Network | IPv6Network

REFUSED = "this address is not allowed to channels of users"

_CONNECTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_RUNS = ("subprocess.", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.system", "pty.", "ctypes.", "syslog.")
_CHANGES = (
    "os.chmod", "os.chown", "os.kill", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
    "os.truncate", "shutil.", "socket.bind", "tempfile.",
)  # fmt: skip
_WRITES = 0o3
"""The bits of open(2)'s flags that are set for writing."""

_READABLE = ("/etc/mime.types", "/etc/ssl", "/usr/share/zoneinfo", "/usr/share/ca-certificates", "/dev/null")


class NotAllowed(PermissionError):
    """An action that is forbidden to a channel of a plain user."""


def forbidden(address: str, allowed: Sequence[Network], is_own: Callable[[str], bool]) -> bool:
    """Return whether a connection to this address is forbidden. Allowed are public addresses of other machines, and
    `allowed`.

    `is_own` returns whether an address is this machine's. An IPv6 address that embeds an IPv4 address is judged by
    that.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return True
    ip = _embedded(ip)
    if any(ip.version == network.version and ip in network for network in allowed):
        return False
    return not ip.is_global or ip.is_multicast or ip.is_reserved or is_own(str(ip))


def is_own_address(address: str) -> bool:
    """Return whether this machine has the address, by the source address of a packet to it. Nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except NotAllowed:
            raise
        except OSError:
            return False
        return str(probe.getsockname()[0]) == address


def close_to_all_but(allowed: Sequence[Network]) -> None:
    """Restrict this process for good: no connections to forbidden addresses, no child processes, no file access.

    It can still read the files of its Python and the machine's certificates.
    """
    readable = tuple(str(Path(path).resolve()) for path in (sys.prefix, sys.base_prefix, *sys.path, *_READABLE) if path)
    probing = False

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal probing
        if event in _CONNECTS and not probing:
            probing = True
            try:
                if _refuses(args, allowed):
                    raise NotAllowed(REFUSED)
            finally:
                probing = False
        elif event.startswith((*_RUNS, *_CHANGES)) or (event == "open" and not _may_open(args, readable)):
            raise NotAllowed(f"{event} is not allowed to channels of users")

    sys.addaudithook(watch)


def _refuses(args: tuple[Any, ...], allowed: Sequence[Network]) -> bool:
    """Return whether a socket's action is forbidden. A host name is always forbidden, because only addresses are
    checked.
    """
    address = args[1] if len(args) > 1 else None
    if not isinstance(address, tuple) or not address or not isinstance(address[0], str):
        return True
    return forbidden(address[0], allowed, is_own_address)


def _may_open(args: tuple[Any, ...], readable: tuple[str, ...]) -> bool:
    path, _mode, flags = (*args, None, None)[:3]
    if isinstance(path, int):
        return True
    if flags is not None and flags & _WRITES:
        return False
    whole = str(Path(path.decode() if isinstance(path, bytes) else str(path)).resolve())
    return any(whole == one or whole.startswith(f"{one}/") for one in readable)


def _embedded(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address embeds: mapped, 6to4, or NAT64 (RFC 4291, 3056, 6052)."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in IPv6Network("64:ff9b::/96"):
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip
