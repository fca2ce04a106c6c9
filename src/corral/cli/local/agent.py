"""`corral agent`: does all on a host that a server asks for."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from corral.cli.local.server import own_python
from corral.cli.screen import command_group, example
from corral.cli.server_part import require_server_part

AGENT = "corral.node.agent"

app = command_group()


@app.command(epilog=example("corral agent --home /var/lib/corral --socket /run/corral/agent.sock"))
def agent(
    *,
    home: Annotated[Path, typer.Option("--home", metavar="DIR", help="Directory for records, logs and scratch.")],
    socket: Annotated[Path, typer.Option("--socket", metavar="PATH", help="Unix socket to answer on.")],
    mock: Annotated[
        Path | None, typer.Option("--mock", metavar="FILE", help="Use the mock devices in this file, not real ones.")
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", help="Name of the node. Default: the host's name.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings. Default: config.yaml in --home.")
    ] = None,
    server_home: Annotated[
        Path | None, typer.Option("--server-home", metavar="DIR", help="Where jobs find their server. Default: --home.")
    ] = None,
    address: Annotated[
        str, typer.Option("--address", metavar="HOST", help="Where other hosts reach this one, for gangs.")
    ] = "127.0.0.1",
) -> None:
    """Run the agent of this host, in the foreground. For administrators.

    A server has it launch and watch jobs here; today that is one on this machine, which starts the agents of a mock
    cluster itself: hosts cannot join the server of another yet. It answers its own user and root. Jobs run on when it
    stops; the next agent with the same --home takes them over.
    """
    require_server_part("agent")
    options: dict[str, object] = {
        "--home": home.absolute(),
        "--socket": socket.absolute(),
        "--mock": None if mock is None else mock.absolute(),
        "--node": node,
        "--config": None if config is None else config.absolute(),
        "--server-home": None if server_home is None else server_home.absolute(),
        "--address": address,
    }
    given = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    os.execv(sys.executable, [*own_python(), "-m", AGENT, *given])
