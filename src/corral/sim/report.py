"""The pages of the simulators: which plots tell what a run was like."""

from collections.abc import Mapping, Sequence
from typing import Any

from corral.sim.history import History, Run
from corral.sim.openb import Point
from corral.sim.page import Bar, Series, gantt, lines, page

UNITS_S = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
"""What a time axis counts in: the largest of which there are two."""

BARS = 4_000
"""A Gantt chart shows so many bars, the first."""

NAME_LENGTH = 8


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


def queue_page(title: str, report: Mapping[str, Any], history: History, *, units: str = "GPUs") -> str:
    """What is in use and who waits over time, a Gantt chart, and how the waits of each user are spread.

    `units` is what the cluster's capacity is counted in.
    """
    span_s = max((run.end for run in history.runs), default=0.0) - min((run.start for run in history.runs), default=0.0)
    unit_s, unit = next((size, name) for size, name in UNITS_S if span_s >= 2 * size or size == 1.0)
    times = [at / unit_s for at in history.times]
    plots = [
        lines(f"{units} in use", [Series("in use", times, history.in_use)], x_label=unit, steps=True),
        lines("Jobs waiting", [Series("waiting", times, history.waiting)], x_label=unit, steps=True),
        gantt("What ran when", _bars(history.runs, unit_s), x_label=unit),
        lines(
            f"Fairness: waits of each user, shortest to longest, {unit}",
            [_spread(user, some, unit_s) for user, some in sorted(history.waits.items())[:8]],
            x_label="percent of the user's jobs",
        ),
    ]
    return page(title, report, plots)


def _bars(runs: Sequence[Run], unit_s: float) -> list[Bar]:
    """A bar for each run on each device or, without devices, each node; in lanes where several share one."""
    ends: dict[str, list[float]] = {}
    found: list[tuple[str, int, Bar]] = []
    for run in sorted(runs, key=lambda one: (one.start, one.allocation.id)):
        for member in run.allocation.placement.members:
            for held in [grant.uuid for grant in member.grants] or [member.node]:
                lane = _lane(ends.setdefault(held, []), run)
                name = f"job {run.allocation.job_id} of {run.allocation.user}"
                found.append((held, lane, Bar(f"{held} {lane}", run.start / unit_s, run.end / unit_s, name)))
    names = _short(sorted(ends))
    ordered = sorted(found[:BARS], key=lambda one: (one[0], one[1], one[2].start))
    return [bar._replace(caption="" if lane else names[held]) for held, lane, bar in ordered]


def _lane(ends: list[float], run: Run) -> int:
    """The first lane that is free when the run begins; it is taken until its end."""
    lane = next((index for index, end in enumerate(ends) if end <= run.start), len(ends))
    ends[lane : lane + 1] = [run.end]
    return lane


def _short(names: Sequence[str]) -> dict[str, str]:
    """The names without the word that every UUID begins with, cut where that leaves them apart, else their ends."""
    cut = {name: name.removeprefix("GPU-")[:NAME_LENGTH] for name in names}
    return cut if len(set(cut.values())) == len(names) else {name: name[-NAME_LENGTH:] for name in names}


def _spread(user: str, waits: Sequence[float], unit_s: float) -> Series:
    ordered = sorted(waits)
    last = max(1, len(ordered) - 1)
    return Series(user, [100 * index / last for index in range(len(ordered))], [wait / unit_s for wait in ordered])
