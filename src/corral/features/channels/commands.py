"""Commands for notification channels."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, text


class ChannelsListCommand(
    DeclaredCommand, runs="corral.features.channels.run_commands.list_channels", examples=("corral channels list",)
):
    """List your channel, or as administrator also those of the site. URLs are secrets and not shown."""

    json: bool = flag("--json", help="Print JSON.")


class ChannelsSetCommand(
    DeclaredCommand,
    runs="corral.features.channels.run_commands.set_own",
    examples=(
        "corral channels set",
        "corral channels set < url-file",
    ),
):
    """Set the URL through which you are told. It is asked for, or read from standard input.

    It is no argument, because other users can see the arguments of commands.
    """

    json: bool = flag("--json", help="Print JSON.")


class ChannelsTestCommand(
    DeclaredCommand,
    runs="corral.features.channels.run_commands.try_channel",
    examples=(
        "corral channels test",
        "corral channels test ops",
    ),
):
    """Send a message to a channel, wait for the result, and print it. Exits with 1 if it was not delivered."""

    channel: str | None = text(metavar="[CHANNEL]", help="A channel of the site; without it, yours.")
    json: bool = flag("--json", help="Print JSON.")


class ChannelsRemoveCommand(
    DeclaredCommand, runs="corral.features.channels.run_commands.remove", examples=("corral channels remove",)
):
    """Forget your channel."""


class ChannelsCommand(
    DeclaredCommand,
    commands={
        "list": ChannelsListCommand,
        "set": ChannelsSetCommand,
        "test": ChannelsTestCommand,
        "remove": ChannelsRemoveCommand,
    },
    examples=("corral channels set < url-file",),
):
    """Set where you are told of your jobs, and try it."""
