"""`corral channels`."""

from __future__ import annotations

from corral.cli.declaring import Command, flag, text


class ChannelsList(Command, runs="channels.list_channels", examples=("corral channels list",)):
    """List your channel, or as administrator also those of the site. URLs are secrets and not shown."""

    json: bool = flag("--json", help="Print JSON.")


class ChannelsSet(
    Command,
    runs="channels.set_own",
    examples=(
        "corral channels set",
        "corral channels set < url-file",
    ),
):
    """Set the URL through which you are told. It is asked for, or read from standard input.

    It is no argument, because other users can see the arguments of commands.
    """

    json: bool = flag("--json", help="Print JSON.")


class ChannelsTest(
    Command,
    runs="channels.try_channel",
    examples=(
        "corral channels test",
        "corral channels test ops",
    ),
):
    """Send a message to a channel, wait for the result, and print it. Exits with 1 if it was not delivered."""

    channel: str | None = text(metavar="[CHANNEL]", help="A channel of the site; without it, yours.")
    json: bool = flag("--json", help="Print JSON.")


class ChannelsRemove(Command, runs="channels.remove", examples=("corral channels remove",)):
    """Forget your channel."""


class Channels(
    Command,
    commands={"list": ChannelsList, "set": ChannelsSet, "test": ChannelsTest, "remove": ChannelsRemove},
    examples=("corral channels set < url-file",),
):
    """Set where you are told of your jobs, and try it."""
