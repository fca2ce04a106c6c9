"""The pages of the simulators: which plots tell what a run was like."""

from collections.abc import Mapping, Sequence
from typing import Any

from corral.sim.history import History, Run
from corral.sim.openb import Point
from corral.sim.page import Bar, Series, gantt, lines, page

HOUR_S = 3600.0
BARS = 4_000
"""A Gantt chart shows so many bars, the first."""


def packing_page(report: Mapping[str, Any], curve: Sequence[Point]) -> str:
    """Allocation and fragmentation over arrivals."""
    arrived = [point.arrived_pct for point in curve]
    plot = lines(
        "Allocation and fragmentation over arrivals, percent of capacity",
        [
            Series("allocated", arrived, [point.allocated_pct for point in curve]),
            Series("fragmented", arrived, [point.fragmented_pct for point in curve]),
        ],
        x_label="arrived, percent of capacity from the first",
    )
    return page(f"openb under {report['policy']}", report, [plot])


def queue_page(title: str, report: Mapping[str, Any], history: History) -> str:
    """GPUs in use and queue over time, a Gantt chart, and how the waits of each user are spread."""
    hours = [at / HOUR_S for at in history.times]
    plots = [
        lines("GPUs in use", [Series("in use", hours, history.gpus)], x_label="hours", steps=True),
        lines("Jobs waiting", [Series("waiting", hours, history.waiting)], x_label="hours", steps=True),
        gantt("Who held what", _bars(history.runs), x_label="hours"),
        lines(
            "Fairness: waits of each user, shortest to longest (hours)",
            [_spread(user, some) for user, some in sorted(history.waits.items())[:8]],
            x_label="percent of the user's jobs",
        ),
    ]
    return page(title, report, plots)


def _bars(runs: Sequence[Run]) -> list[Bar]:
    bars = [
        Bar(row, run.start / HOUR_S, run.end / HOUR_S, f"job {run.allocation.job_id} of {run.allocation.user}")
        for run in sorted(runs, key=lambda one: (one.start, one.allocation.id))
        for member in run.allocation.placement.members
        for row in ([grant.uuid for grant in member.grants] or [member.node])
    ]
    return bars[:BARS]


def _spread(user: str, waits: Sequence[float]) -> Series:
    ordered = sorted(waits)
    last = max(1, len(ordered) - 1)
    return Series(user, [100 * index / last for index in range(len(ordered))], [wait / HOUR_S for wait in ordered])
