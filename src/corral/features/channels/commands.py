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
    """Set the URL for messages to you. The command asks for it, or reads it from standard input.

    The URL is not an argument, because other users can see the arguments of commands.
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
    """Remove your channel."""


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
    """Set the channel for messages about your jobs, and test it."""
