"""`corral agent`: do the work of a server on this host."""

import os
import sys

from corral.cli.commands import serving
from corral.cli.local.server import own_python
from corral.cli.server_part import require_server_part

AGENT = "corral.host.node.agent"


def agent(given: serving.AgentCommand) -> None:
    """Run `corral agent`."""
    require_server_part("agent")
    options: dict[str, object] = {
        "--home": given.home.absolute(),
        "--socket": given.socket.absolute(),
        "--mock": None if given.mock is None else given.mock.absolute(),
        "--node": given.node,
        "--config": None if given.config is None else given.config.absolute(),
        "--server-home": None if given.server_home is None else given.server_home.absolute(),
        "--address": given.address,
    }
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    os.execv(sys.executable, [*own_python(), "-m", AGENT, *words])
