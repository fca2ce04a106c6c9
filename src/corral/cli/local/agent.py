"""`corral agent`: do the work of a server on this host."""

import os
import sys
from pathlib import Path

from corral.cli.commands import serving
from corral.cli.local.server import own_python
from corral.core.model.home import Home, agent_home

AGENT = "corral.host.node.agent"
CONNECT = "corral.host.node.connect"
CLAIM = "corral.host.node.agent_claim"


def agent(given: serving.AgentCommand) -> None:
    """Run `corral agent`."""
    home = _home(given.home)
    options: dict[str, object] = {
        "--home": home,
        "--socket": home.agent_socket if given.socket is None else given.socket.absolute(),
        "--mock": None if given.mock is None else given.mock.absolute(),
        "--node": given.node,
        "--config": None if given.config is None else given.config.absolute(),
        "--server-home": None if given.server_home is None else given.server_home.absolute(),
        "--address": given.address,
    }
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    claimed = ["--claimed"] if given.claimed or given.home is None else []
    os.execv(sys.executable, [*own_python(), "-m", AGENT, *words, *claimed])


def connect(given: serving.AgentConnectCommand) -> None:
    """Run `corral agent connect`."""
    os.execv(sys.executable, [*own_python(), "-m", CONNECT, str(_home(given.home).agent_socket)])


def release(given: serving.AgentReleaseCommand) -> None:
    """Run `corral agent release`."""
    os.execv(sys.executable, [*own_python(), "-m", CLAIM, str(_home(given.home).root)])


def _home(given: Path | None) -> Home:
    return agent_home(Path.home(), by_root=os.geteuid() == 0) if given is None else Home(given.absolute())
