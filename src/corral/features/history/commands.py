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

    Without --by each has its formula. With it: GPU and MEM are mean utilization and memory in percent, USED the part of
    granted GPU time in which the GPU was used, JOBS/H how many ended per hour; TAKE, WAIT and START how long jobs took
    from submission to end, waited, and from decision to start; TEMP and POWER are of one GPU, ERR the part of jobs that
    failed, HW failures of hardware.
    """

    by: str | None = text("--by", metavar="KEY", help="A row for each user, project, queue, node or means.")
    since: str | None = text("--since", metavar="TIME", help="How far back: 12h.  [default: 24h]")
    begin: str | None = text("--from", metavar="WHEN", help="From then on: 2026-10, 2026-10-01, 2026-10-01T08:00.")
    until: str | None = text("--until", metavar="WHEN", help="Up to then, not included.  [default: now]")
    json: bool = flag("--json", help="Print JSON.")
