"""`corral alerts`: what fires, and what to do about being told of it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import screen
from corral.cli.screen import example, print_json, wrapped, write_lines, write_painted
from corral.cli.text_table import TextTable
from corral.client import Client
from corral.formatting.times import clock_time
from corral.model.printable import printable
from corral.model.units import count_of, parse_duration_s

if TYPE_CHECKING:
    from corral.model.answers.alerts import AlertList, AlertRow, SilenceRow

SEVERITY_STYLES = {"critical": "red", "warning": "yellow", "info": "cyan"}
_RULE_COLUMNS = 17
_LEAST_WHAT_COLUMNS = 20

app = typer.Typer(
    name="alerts",
    help="List the alerts that fire; acknowledge and silence them.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    invoke_without_command=True,
    epilog="\b\nExample:\n  corral alerts\n  corral alerts silence node=gpu-07 --for 2h",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def alerts(
    ctx: typer.Context,
    history: Annotated[
        bool, typer.Option("--all", "-a", "--history", help="Also the last that are over (of 7 days, 500 at most).")
    ] = False,
    json: Json = False,
) -> None:
    """List the alerts that fire, the worst first.

    An alert is told in the channels of its rule, unless somebody has silenced it. Rules and channels are settings of
    the site.
    """
    if ctx.invoked_subcommand is not None:
        return
    with Client() as client:
        found = client.alerts.list(history=history)
    if json:
        print_json(found)
    else:
        write_painted(*alert_lines(found))


@app.command(epilog=example("corral alerts ack 5f0c27ab"))
def ack(
    alert_id: Annotated[str, typer.Argument(metavar="ID", help="Its id in `corral alerts`.")], json: Json = False
) -> None:
    """Say that you take care of an alert. Others see so; that it is over is told all the same."""
    with Client() as client:
        row = client.alerts.acknowledge(alert_id)
    if json:
        print_json(row)
    else:
        write_lines(printable(f"{row.acknowledged_by} takes care of alert {row.id}: {row.sentence}"))


@app.command(
    epilog=example(
        "corral alerts silence temperature --for 2h",
        'corral alerts silence "node=gpu-07,severity=warning" --for 1d --reason "new fans"',
    )
)
def silence(
    match: Annotated[
        str,
        typer.Argument(metavar="MATCH", help="A rule's name, an alert's id, or KEY=PATTERN,... (with * for anything)."),
    ],
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="For how long: 30m, 2h, 7d.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Shown with the silence.")] = "",
    json: Json = False,
) -> None:
    """Keep alerts from being told for a time. They are listed all the same.

    KEY is rule, severity, subject, node, gpu, uuid, model, job, name, user, project, queue or disk; all parts must fit.
    Who is no administrator silences alerts about their own jobs only.
    """
    with Client() as client:
        row = client.alerts.silence(match, parse_duration_s(duration, field="--for"), reason)
    if json:
        print_json(row)
    else:
        write_lines(silence_line(row))


@app.command(epilog=example("corral alerts silences"))
def silences(json: Json = False) -> None:
    """List the silences that are in force."""
    with Client() as client:
        rows = client.alerts.silences()
    if json:
        print_json(rows)
        return
    table = TextTable(("ID", "UNTIL", "BY", "ALERTS", "MATCH", "REASON"), limits={"BY": 12}, numeric=("ALERTS",))
    for row in rows:
        whose = f" (jobs of {row.user})" if row.user else ""
        table.add(row.id, clock_time(row.until), row.by, str(row.alerts), row.match + whose, row.reason)
    write_painted(*(table.lines() if rows else ["no alerts are silenced"]))


@app.command("test", epilog=example("corral alerts test ops"))
def try_channel(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Its name in the site's settings.")],
    json: Json = False,
) -> None:
    """Send a message to a channel of the site, wait for the result, and print it. Exits with 1 if it was not delivered.

    For administrators. `corral channels test` tries your own channel.
    """
    from corral.cli.channels import test_channel

    test_channel(channel, json=json)


@app.command(epilog=example("corral alerts unsilence 91ab03c4"))
def unsilence(
    silence_id: Annotated[str, typer.Argument(metavar="ID", help="Its id in `corral alerts silences`.")],
    json: Json = False,
) -> None:
    """End a silence. What it kept back and still fires is told."""
    with Client() as client:
        row = client.alerts.unsilence(silence_id)
    if json:
        print_json(row)
    else:
        write_lines(printable(f"silence {row.id} ({row.match}) is over"))


def silence_line(row: "SilenceRow") -> str:
    """What a new silence does, as a sentence without its full stop."""
    whose = f" about jobs of {row.user}" if row.user else ""
    now = f", {count_of(row.alerts, 'alert')} now" if row.alerts else "; none that fires now matches"
    return printable(
        f"silence {row.id}: alerts{whose} that match {row.match} are not told until {clock_time(row.until)}{now}"
    )


def alert_lines(found: "AlertList") -> Iterator[str]:
    """The table of `alerts`."""
    if found.alerts:
        yield from _table(found.alerts)
    else:
        yield "no alerts fire"
    for rule, count in sorted(found.left_out.items()):
        yield printable(f"and {rule} would fire for {count} more")


def _table(rows: "Sequence[AlertRow]") -> list[str]:
    """A row for each alert; on a terminal its sentence goes on below."""
    titles = ("ID", "SEVERITY", "SINCE", "RULE")
    table = TextTable((*titles, "WHAT"), limits={"RULE": _RULE_COLUMNS})
    columns = screen.room()
    cells = [(row.id, row.severity, clock_time(row.since), row.rule) for row in rows]
    taken = sum(min(_RULE_COLUMNS, max(map(len, column))) + 2 for column in zip(titles, *cells, strict=True))
    for row, (*others, rule) in zip(rows, cells, strict=True):
        style = SEVERITY_STYLES.get(row.severity) if row.state == "firing" else None
        said = printable(_standing(row) + row.sentence)
        first, *more = [said] if columns is None else wrapped(said, max(_LEAST_WHAT_COLUMNS, columns - taken))
        table.add(*others, rule, first, style=style)
        for line in more:
            table.add("", "", "", "", line)
    return table.lines(paint="SEVERITY")


def _standing(row: "AlertRow") -> str:
    if row.state != "firing":
        return "over: "
    if row.acknowledged_by is not None:
        return f"(acknowledged by {row.acknowledged_by}) "
    return "(silenced) " if row.silenced else ""
