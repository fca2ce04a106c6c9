"""The command for key figures."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, text


class KpisCommand(
    DeclaredCommand,
    runs="corral.features.history.run_commands.kpis",
    examples=(
        "corral kpis",
        "corral kpis --by user --since 7d",
        "corral kpis --from 2026-10 --by means",
    ),
):
    """Show key figures: use of GPUs, how jobs fared, health.

    Without --by each figure is shown with its formula. With --by the columns are: GPU and MEM, mean utilization and
    memory in percent; USED, part of the granted GPU time in which the GPU was used; JOBS/H, jobs ended per hour;
    TAKE, time from submission to end; WAIT, time in the queue; START, time from decision to start; TEMP and POWER,
    of one GPU; ERR, part of the jobs that failed; HW, hardware failures.
    """

    by: str | None = text("--by", metavar="KEY", help="Group by user, project, queue, node or means of sharing.")
    since: str | None = text("--since", metavar="TIME", help="Length of the period up to now: 12h.  [default: 24h]")
    begin: str | None = text(
        "--from", metavar="WHEN", help="Begin of the period: 2026-10, 2026-10-01, 2026-10-01T08:00."
    )
    until: str | None = text("--until", metavar="WHEN", help="End of the period, not included.  [default: now]")
    json: bool = flag("--json", help="Print JSON.")
