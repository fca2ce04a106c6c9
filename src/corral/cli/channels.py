"""`corral channels`: where users are told of their jobs, and whether that works."""

import sys
from typing import Annotated

import typer

from corral.cli.screen import example, print_json, say, write_lines, write_painted
from corral.cli.text_table import TextTable
from corral.client import Client
from corral.model.answers.channels import ChannelRow, ChannelTest
from corral.model.errors import Refused

app = typer.Typer(
    name="channels",
    help="Set where you are told of your jobs, and try it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="\b\nExample:\n  corral channels set < url-file",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def channels() -> None:
    """A channel is a URL: jsons://HOST/PATH, slack://..., mailtos://... (https://appriseit.com lists all kinds)."""


@app.command("list", epilog=example("corral channels list"))
def list_channels(json: Json = False) -> None:
    """List your channel, or as administrator also those of the site. URLs are secrets and not shown."""
    with Client() as client:
        rows = client.channels.list()
    if json:
        print_json(rows)
        return
    table = TextTable(("CHANNEL", "KIND", "LAST TRY"), limits={"CHANNEL": 24})
    for row in rows:
        table.add(row.name or f"yours ({row.user})", row.kind, _last_try(row))
    write_painted(*table.lines())


@app.command("set", epilog=example("corral channels set", "corral channels set < url-file"))
def set_own(json: Json = False) -> None:
    """Set the URL through which you are told. It is asked for, or read from standard input.

    It is no argument, because other users can see the arguments of commands.
    """
    url = _asked() if sys.stdin.isatty() else sys.stdin.readline(8192)
    if not url.strip():
        raise Refused("no URL was given; type it, or write: corral channels set < FILE", field="URL")
    with Client() as client:
        row = client.channels.set_own(url.strip())
    if json:
        print_json(row)
        return
    write_lines(f"you are told through {row.kind}:// of jobs submitted with --notify-on; try it: corral channels test")


@app.command("test", epilog=example("corral channels test", "corral channels test ops"))
def try_channel(
    channel: Annotated[
        str | None, typer.Argument(metavar="[CHANNEL]", help="A channel of the site; without it, yours.")
    ] = None,
    json: Json = False,
) -> None:
    """Send a message to a channel, wait for the result, and print it. Exits with 1 if it was not delivered."""
    test_channel(channel, json=json)


@app.command(epilog=example("corral channels remove"))
def remove() -> None:
    """Forget your channel."""
    with Client() as client:
        client.channels.remove_own()
    write_lines("you have no channel any more")


def test_channel(channel: str | None, *, json: bool) -> None:
    """Send a message to a channel of the site, or to the caller's own, and print what came of it."""
    with Client() as client:
        told = client.channels.test(channel)
    if json:
        print_json(told)
    elif told.delivered:
        write_lines(f"{_called(told)}: delivered in {told.seconds:.1f} s")
    else:
        say(f"{_called(told)}: not delivered: {told.why}")
    if not told.delivered:
        raise typer.Exit(1)


def _called(told: ChannelTest) -> str:
    return f"channel {told.channel}" if told.channel else "your channel"


def _last_try(row: ChannelRow) -> str:
    if row.delivered is None:
        return "none yet"
    return "delivered" if row.delivered else f"failed: {row.why}"


def _asked() -> str:
    from getpass import getpass

    return getpass("URL (not shown): ", stream=sys.stderr)
