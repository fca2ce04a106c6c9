"""The command that opens the dashboard."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag


class DashboardCommand(
    DeclaredCommand,
    runs="corral.features.dashboard.run_commands.dashboard",
    examples=(
        "corral dashboard",
        "ssh -L 8712:127.0.0.1:712 gpu-box   # and open the link with 8712",
    ),
):
    """Open the dashboard in a browser. Prints the link, which works once and for two minutes, as you.

    The link is for browsers on the server's machine. From another machine, forward its port with ssh -L, or have the
    server listen there with `corral up --listen` and a certificate; the page then asks for a token.
    """

    no_open: bool = flag("--no-open", help="Only print the link.")
