"""Commands for usage and reports."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, choice, flag, text


class UsageCommand(
    DeclaredCommand,
    runs="corral.features.accounting.run_commands.usage",
    examples=(
        "corral usage --by project --since 30d",
        "corral usage --from 2026-01 --by month,user --format csv",
    ),
):
    """Show GPU-hours used, and how well the shares were enforced.

    Half a GPU for two hours is one GPU-hour. "enforced": jobs could not use more than their share. "guarded" memory:
    jobs that used more were stopped. "advisory": shares were not enforced. LOST: hours of jobs that were stopped to
    make room for others. Months are those of this machine's time zone.
    """

    by: str = text(
        "--by", metavar="KEYS", help="Add up by user, project or queue, by month, or by month,user.", default="user"
    )
    since: str | None = text("--since", metavar="TIME", help="Length of the period up to now: 12h.  [default: 7d]")
    begin: str | None = text(
        "--from", metavar="WHEN", help="Begin of the period: 2026-10, 2026-10-01, 2026-10-01T08:00."
    )
    until: str | None = text("--until", metavar="WHEN", help="End of the period, not included.  [default: now]")
    form: str = choice("--format", help="table, json or csv.", choices=("table", "json", "csv"), default="table")
    json: bool = flag("--json", help="Print JSON.")


class ReportCommand(
    DeclaredCommand,
    runs="corral.features.accounting.run_commands.report",
    examples=(
        "corral report --by project,user --since 30d",
        "corral report --by model --from 2026-10 --format html > use.html",
        "corral report --by hour,weekday",
        "corral report --waste",
    ),
):
    """Show how granted GPUs were used, and what they cost.

    Half a GPU for two hours is one GPU-hour. USED: the utilization was at least 5 %; IDLE: it was less; UNMETERED: it
    was not measured. WASTED: attempts that failed or were lost, and work lost by jobs that had to make room.
    Hours and weekdays are those of the server's time zone. Prices are set in the site's settings.
    """

    by: str | None = text(
        "--by",
        metavar="KEYS",
        help="Group by user, project, queue, job, model, node, namespace (of pods), hour or weekday; several: "
        "user,project.  [default: user]",
    )
    since: str | None = text("--since", metavar="TIME", help="Length of the period up to now: 12h.  [default: 7d]")
    begin: str | None = text(
        "--from", metavar="WHEN", help="Begin of the period: 2026-10, 2026-10-01, 2026-10-01T08:00."
    )
    until: str | None = text("--until", metavar="WHEN", help="End of the period, not included.  [default: now]")
    waste: bool = flag(
        "--waste", help="List jobs that used less than their grant, and how much would have been enough."
    )
    form: str = choice(
        "--format", help="table, csv, json or html.", choices=("table", "csv", "json", "html"), default="table"
    )
    json: bool = flag("--json", help="Print JSON.")
