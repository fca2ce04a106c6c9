"""`corral usage` and `corral report`: how much of GPUs was used, and what granted GPUs were used for and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from corral.cli.periods import Period, months_of, period_of
from corral.cli.screen import print_json, write_document, write_painted
from corral.client import Client, Usage
from corral.core.model.errors import Refused
from corral.core.model.runs.run_history import UsageBy
from corral.features.accounting import commands, report_table, usage_table
from corral.features.accounting.usage_table import MONTH


def usage(given: commands.UsageCommand) -> None:
    """Run `corral usage`."""
    form = _form(given.form, as_json=given.json)
    monthly, key = _keys(given.by)
    period = period_of(given.since, given.begin, given.until)
    with Client() as client:
        periods = list(months_of(period)) if monthly else [period]
        usages = [
            (one.month, client.usage((key or UsageBy.USER).value, since=one.since, until=one.until)) for one in periods
        ]
    if key is None:
        usages = [(month, replace(used, by=MONTH, rows=(used.total,))) for month, used in usages]
    if form == "json":
        print_json(_as_json(given.by, period, usages) if monthly else usages[0][1])
    elif form == "csv":
        usage_table.write_csv(usages)
    else:
        write_painted(*(usage_table.months_lines(usages) if monthly else usage_table.usage_lines(usages[0][1])))


def _form(form: str, *, as_json: bool) -> str:
    """The format of the output. Raises Refused if two were asked for."""
    if as_json and form not in ("table", "json"):
        raise Refused(f"--json and --format {form} are two formats; leave out one of them", field="--format")
    return "json" if as_json else form


def _keys(by: str) -> tuple[bool, UsageBy | None]:
    """Whether to group by month, and the other key if any. Raises Refused."""
    names = [name.strip() for name in by.split(",")]
    others = [name for name in names if name != MONTH]
    if len(set(names)) < len(names) or len(others) > 1 or not set(others) <= {one.value for one in UsageBy}:
        allowed = ", ".join(one.value for one in UsageBy)
        raise Refused(
            f"--by: {by!r:.60} is none of {allowed}, month, or month and one of these: month,user", field="--by"
        )
    return MONTH in names, UsageBy(others[0]) if others else None


def _as_json(by: str, period: Period, usages: Sequence[tuple[str | None, Usage]]) -> Mapping[str, Any]:
    months = [{MONTH: month, **asdict(used)} for month, used in usages]
    return {"by": by, "since": period.since, "until": period.until, "months": months}


def report(given: commands.ReportCommand) -> None:
    """Run `corral report`."""
    form = _form(given.form, as_json=given.json)
    period = period_of(given.since, given.begin, given.until)
    if given.waste:
        if given.by is not None:
            raise Refused("--by does not group the jobs that --waste lists; leave it out", field="--by")
        _show_waste(period, form)
        return
    words = [word.strip() for word in (given.by or "user").split(",")]
    with Client() as client:
        found = client.report(words, since=period.since, until=period.until)
    if form == "json":
        print_json(found)
    elif form == "csv":
        report_table.write_csv(found)
    elif form == "html":
        from corral.features.accounting.report_page import page_of

        write_document(page_of(found))
    else:
        write_painted(*report_table.report_lines(found))


def _show_waste(period: Period, form: str) -> None:
    if form not in ("table", "json"):
        raise Refused("--waste is written as a table or JSON; leave out --format", field="--format")
    with Client() as client:
        found = client.waste(since=period.since, until=period.until)
    if form == "json":
        print_json(found)
    else:
        write_painted(*report_table.waste_lines(found))
