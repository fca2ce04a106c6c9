"""Commands for hosts that are joined by SSH."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, text

_HOST = "Its name in the pool."


class HostsAddCommand(
    DeclaredCommand,
    runs="corral.features.hosts.run_commands.add",
    examples=(
        "corral hosts add gpu-05 gpu-06 --install",
        "corral hosts add gpu-07 --ssh admin@10.0.0.7 --accept-new --install",
    ),
):
    """Join hosts to the pool by SSH, for administrators.

    The server runs `ssh` as its own account: what works there without a password works here. With --install it first
    installs Corral's agent on the host, and makes a key of its own that reaches nothing there but the agent.
    """

    hosts: list[str] = text(metavar="HOST", help="A name for its node, which ssh also knows.", many=True, required=True)
    install: bool = flag("--install", help="Install Corral's agent there first.")
    accept_new: bool = flag("--accept-new", help="Accept host keys that are unknown. Compare them first.")
    ssh: str | None = text("--ssh", metavar="DEST", help="The destination for ssh. Default: HOST.")
    address: str | None = text("--address", help="Where other hosts reach it, for gangs. Default: where ssh did.")
    mock: str | None = text("--mock", metavar="FILE", help="Use the mock devices in this file there.")
    json: bool = flag("--json", help="Print JSON.")


class HostsListCommand(
    DeclaredCommand, runs="corral.features.hosts.run_commands.list_hosts", examples=("corral hosts list",)
):
    """List the hosts that are joined by SSH, with the state of each."""

    json: bool = flag("--json", help="Print JSON.")


class HostsCheckCommand(
    DeclaredCommand, runs="corral.features.hosts.run_commands.check", examples=("corral hosts check gpu-05",)
):
    """Try to reach hosts now, for administrators. Without a name, all of them."""

    hosts: list[str] | None = text(metavar="HOST", help=_HOST, many=True)
    json: bool = flag("--json", help="Print JSON.")


class HostsUpgradeCommand(
    DeclaredCommand, runs="corral.features.hosts.run_commands.upgrade", examples=("corral hosts upgrade gpu-05",)
):
    """Bring the agents of hosts to the server's version, for administrators. Without a name, all of them.

    Jobs run on meanwhile. The agents also get the server's settings.
    """

    hosts: list[str] | None = text(metavar="HOST", help=_HOST, many=True)
    json: bool = flag("--json", help="Print JSON.")


class HostsRemoveCommand(
    DeclaredCommand, runs="corral.features.hosts.run_commands.remove", examples=("corral hosts remove gpu-05",)
):
    """Remove hosts from the pool, for administrators."""

    hosts: list[str] = text(metavar="HOST", help=_HOST, many=True, required=True)
    force: bool = flag("--force", help="Also while jobs run there. They are ended.")


class HostsCommand(
    DeclaredCommand,
    runs="corral.features.hosts.run_commands.hosts",
    commands={
        "add": HostsAddCommand,
        "check": HostsCheckCommand,
        "list": HostsListCommand,
        "remove": HostsRemoveCommand,
        "upgrade": HostsUpgradeCommand,
    },
    examples=("corral hosts", "corral hosts add gpu-05 gpu-06 --install"),
):
    """List the hosts that are joined by SSH. Add, check, upgrade and remove them."""

    json: bool = flag("--json", help="Print JSON.")
