"""Finds out whether this host has Docker without calling it: a server that runs no container loads no Docker
library.
"""

import os
import shutil
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_SOCKET = "/var/run/docker.sock"
_UNIX = "unix://"
_DAEMON = "dockerd"

NOT_THERE = "Docker is not installed there"
"""Why no container can run on a host where `no_docker` finds none, for users of another host."""

NOT_RUNNING = "Docker does not run there"
"""Why no container can run on a host where Docker is installed and nobody listens at its socket."""

_UNIX_SOCKETS = Path("/proc/net/unix")
_LISTENS = 0x10000
"""The flag there of a socket that takes connections (__SO_ACCEPTCON of linux/net.h)."""

_CONNECT_S = 0.5


def socket_there(env: Mapping[str, str] = os.environ) -> bool:
    """Return whether a daemon could answer: its socket exists, or its address is of another kind."""
    address = env.get("DOCKER_HOST") or f"{_UNIX}{_SOCKET}"
    return not address.startswith(_UNIX) or Path(address.removeprefix(_UNIX)).exists()


def no_docker(env: Mapping[str, str] = os.environ) -> str | None:
    """Return why no container can run here, a sentence without its full stop; None if Docker is installed, even if it
    is down.

    Docker counts as installed if its program is on the server's PATH, if its socket exists, or if DOCKER_HOST is set.
    """
    if env.get("DOCKER_HOST") or Path(_SOCKET).exists() or shutil.which(_DAEMON, path=env.get("PATH")) is not None:
        return None
    return f"this host has no Docker: there is no {_SOCKET}, and no {_DAEMON} on the server's PATH"


def lack_of_docker(env: Mapping[str, str] = os.environ) -> str | None:
    """Return why no container can run on this host now, for users of another host; None if one can.

    None also if that is unknown, as with a daemon of another host, or one that this user may not call.
    """
    if no_docker(env) is not None:
        return NOT_THERE
    address = env.get("DOCKER_HOST") or f"{_UNIX}{_SOCKET}"
    path = address.removeprefix(_UNIX)
    return NOT_RUNNING if address.startswith(_UNIX) and not _is_listening(path) else None


def _is_listening(path: str) -> bool:
    """Whether a daemon answers at this socket, or systemd does, which starts the daemon when somebody calls.

    Such a socket is not connected to: that would start Docker on hosts where nobody uses it.
    """
    names = {path, os.path.realpath(path)}
    with suppress(OSError):
        for line in _UNIX_SOCKETS.read_text(errors="replace").splitlines()[1:]:
            row = line.split(maxsplit=7)
            if names.issuperset(row[7:]) and row[7:] and int(row[3], 16) & _LISTENS:
                return True
    # A daemon in another network namespace is not listed.
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(_CONNECT_S)
        try:
            tried.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True
    return True
