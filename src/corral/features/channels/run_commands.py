"""`corral channels`: the channels through which users are notified of their jobs, and tests of them."""

import sys

from corral.cli.screen import print_json, say, write_lines, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client import Client
from corral.core.model.errors import Refused
from corral.features.channels import commands
from corral.features.channels.answers import ChannelRow, ChannelTest


def list_channels(given: commands.ChannelsListCommand) -> None:
    """Run `corral channels list`."""
    with Client() as client:
        rows = client.channels.list()
    if given.json:
        print_json(rows)
        return
    table = TextTable(("CHANNEL", "KIND", "LAST TRY"), limits={"CHANNEL": 24})
    for row in rows:
        table.add(row.name or f"yours ({row.user})", row.kind, _last_try(row))
    write_painted(*table.lines())


def set_own(given: commands.ChannelsSetCommand) -> None:
    """Run `corral channels set`."""
    url = _asked() if sys.stdin.isatty() else sys.stdin.readline(8192)
    if not url.strip():
        raise Refused("no URL was given; type it, or write: corral channels set < FILE", field="URL")
    with Client() as client:
        row = client.channels.set_own(url.strip())
    if given.json:
        print_json(row)
        return
    write_lines(f"messages about jobs submitted with --notify-on go to {row.kind}://; test it: corral channels test")


def try_channel(given: commands.ChannelsTestCommand) -> None:
    """Run `corral channels test`."""
    test_channel(given.channel, json=given.json)


def remove(given: commands.ChannelsRemoveCommand) -> None:
    """Run `corral channels remove`."""
    with Client() as client:
        client.channels.remove_own()
    write_lines("you have no channel any more")


def test_channel(channel: str | None, *, json: bool) -> None:
    """Test a channel of the site, or the caller's own, and print the result. On failure, exit with 1."""
    with Client() as client:
        told = client.channels.test(channel)
    if json:
        print_json(told)
    elif told.delivered:
        write_lines(f"{_called(told)}: delivered in {told.seconds:.1f} s")
    else:
        say(f"{_called(told)}: not delivered: {told.why}")
    if not told.delivered:
        raise SystemExit(1)


def _called(told: ChannelTest) -> str:
    return f"channel {told.channel}" if told.channel else "your channel"


def _last_try(row: ChannelRow) -> str:
    if row.delivered is None:
        return "none yet"
    return "delivered" if row.delivered else f"failed: {row.why}"


def _asked() -> str:
    from getpass import getpass

    return getpass("URL (not shown): ", stream=sys.stderr)
