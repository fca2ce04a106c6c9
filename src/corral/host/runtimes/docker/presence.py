"""Finds out whether this host has Docker without calling it: a server that runs no container loads no Docker
library.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

_SOCKET = "/var/run/docker.sock"
_UNIX = "unix://"
_DAEMON = "dockerd"

NOT_THERE = "Docker is not installed there"
"""Why no container can run on a host where `no_docker` finds none, for users of another host."""


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
