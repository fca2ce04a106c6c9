"""Whether this host has Docker, without asking it: a server that runs no container loads none of its library."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

_SOCKET = "/var/run/docker.sock"
_UNIX = "unix://"
_DAEMON = "dockerd"


def socket_there(env: Mapping[str, str] = os.environ) -> bool:
    """Whether a daemon could answer: its socket is there, or it is at an address of another kind."""
    address = env.get("DOCKER_HOST") or f"{_UNIX}{_SOCKET}"
    return not address.startswith(_UNIX) or Path(address.removeprefix(_UNIX)).exists()


def no_docker(env: Mapping[str, str] = os.environ) -> str | None:
    """Why no container can run here, a sentence without its full stop; None where Docker is, which may be down.

    It is where its program is on the server's PATH, where it has a socket, or where DOCKER_HOST says so.
    """
    if env.get("DOCKER_HOST") or Path(_SOCKET).exists() or shutil.which(_DAEMON, path=env.get("PATH")) is not None:
        return None
    return f"this host has no Docker: there is no {_SOCKET}, and no {_DAEMON} on the server's PATH"
