"""`corral alerts`: list the alerts that fire, acknowledge and silence them, and test a channel."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from corral.cli import screen
from corral.cli.screen import print_json, wrapped, write_lines, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client import Client
from corral.core.model.printable import printable
from corral.core.model.units import count_of, parse_duration_s
from corral.features.alerts import commands
from corral.formatting.times import clock_time

if TYPE_CHECKING:
    from corral.features.alerts.answers import AlertList, AlertRow, SilenceRow

SEVERITY_STYLES = {"critical": "red", "warning": "yellow", "info": "cyan"}
_RULE_COLUMNS = 17
_LEAST_WHAT_COLUMNS = 20


def alerts(given: commands.AlertsCommand) -> None:
    """Run `corral alerts`."""
    with Client() as client:
        found = client.alerts.list(history=given.history)
    if given.json:
        print_json(found)
    else:
        write_painted(*alert_lines(found))


def ack(given: commands.AlertsAckCommand) -> None:
    """Run `corral alerts ack`."""
    with Client() as client:
        row = client.alerts.acknowledge(given.alert_id)
    if given.json:
        print_json(row)
    else:
        write_lines(printable(f"alert {row.id} is acknowledged by {row.acknowledged_by}: {row.sentence}"))


def silence(given: commands.AlertsSilenceCommand) -> None:
    """Run `corral alerts silence`."""
    with Client() as client:
        row = client.alerts.silence(given.match, parse_duration_s(given.duration, field="--for"), given.reason)
    if given.json:
        print_json(row)
    else:
        write_lines(silence_line(row))


def silences(given: commands.AlertsSilencesCommand) -> None:
    """Run `corral alerts silences`."""
    with Client() as client:
        rows = client.alerts.silences()
    if given.json:
        print_json(rows)
        return
    table = TextTable(("ID", "UNTIL", "BY", "ALERTS", "MATCH", "REASON"), limits={"BY": 12}, numeric=("ALERTS",))
    for row in rows:
        whose = f" (jobs of {row.user})" if row.user else ""
        table.add(row.id, clock_time(row.until), row.by, str(row.alerts), row.match + whose, row.reason)
    write_painted(*(table.lines() if rows else ["no alerts are silenced"]))


def try_channel(given: commands.AlertsTestCommand) -> None:
    """Run `corral alerts test`."""
    from corral.features.channels.run_commands import test_channel

    test_channel(given.channel, json=given.json)


def unsilence(given: commands.AlertsUnsilenceCommand) -> None:
    """Run `corral alerts unsilence`."""
    with Client() as client:
        row = client.alerts.unsilence(given.silence_id)
    if given.json:
        print_json(row)
    else:
        write_lines(printable(f"silence {row.id} ({row.match}) has ended"))


def silence_line(row: "SilenceRow") -> str:
    """The effect of a new silence, as a sentence without its full stop."""
    whose = f" about jobs of {row.user}" if row.user else ""
    now = f", {count_of(row.alerts, 'alert')} now" if row.alerts else "; no active alert matches"
    return printable(
        f"silence {row.id}: alerts{whose} that match {row.match} cause no messages until {clock_time(row.until)}{now}"
    )


def alert_lines(found: "AlertList") -> Iterator[str]:
    """The table of `alerts`."""
    if found.alerts:
        yield from _table(found.alerts)
    else:
        yield "no alerts"
    for rule, count in sorted(found.left_out.items()):
        yield printable(f"and {count_of(count, 'more alert')} of rule {rule}")


def _table(rows: "Sequence[AlertRow]") -> list[str]:
    """A row for each alert. On a terminal, a long sentence continues below."""
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
        return "resolved: "
    if row.acknowledged_by is not None:
        return f"(acknowledged by {row.acknowledged_by}) "
    return "(silenced) " if row.silenced else ""
