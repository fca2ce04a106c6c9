"""The report pages of the simulators, and which plots each has."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corral.sim.benchmarks.openb import Point
from corral.sim.reports.history import History, Run
from corral.sim.reports.page import Bar, Series, gantt, lines, page

UNITS_S = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
"""The units of a time axis: the largest of which the axis has at least two."""

BARS = 4_000
"""The most bars of a Gantt chart, the first ones."""

NAME_LENGTH = 8

SLICES = 50
"""The number of steps in the plot of decisions a second."""

SHOWN = 0.999
"""The part of decisions that is drawn: the longest few would flatten the rest."""


def packing_page(reports: Mapping[str, Mapping[str, Any]], curves: Mapping[str, Sequence[Point]]) -> str:
    """Allocation and fragmentation over arrivals, under one policy or several."""
    allocated = {name: [point.allocated_pct for point in curve] for name, curve in curves.items()}
    fragmented = {name: [point.fragmented_pct for point in curve] for name, curve in curves.items()}
    arrived = {name: [point.arrived_pct for point in curve] for name, curve in curves.items()}
    if len(curves) == 1:
        ((name, x),) = arrived.items()
        both = [Series("allocated", x, allocated[name]), Series("fragmented", x, fragmented[name])]
        drawn = {"Allocation and fragmentation": both}
    else:
        drawn = {
            title: [Series(name, arrived[name], values) for name, values in found.items()]
            for title, found in (("Allocation", allocated), ("Fragmentation", fragmented))
        }
    plots = [
        lines(f"{title} over arrivals, percent of capacity", series, x_label="arrived, percent of capacity")
        for title, series in drawn.items()
    ]
    return page(f"openb under {', '.join(reports)}", beside(reports), plots)


def queue_page(
    title: str,
    report: Mapping[str, Any],
    histories: Mapping[str, History],
    *,
    units: str = "GPUs",
    waiters: str = "user",
) -> str:
    """Return a page with use and waiting jobs over time, a Gantt chart, and the spread of waits, of one run or of
    several.

    `units` is the unit of the cluster's capacity, `waiters` the grouping of waits in a history.
    """
    several = len(histories) > 1
    moments = [at for history in histories.values() for at in history.times]
    moments += [at for history in histories.values() for run in history.runs for at in (run.start, run.end)]
    start, end = min(moments, default=0.0), max(moments, default=0.0)
    unit_s, unit = next((size, name) for size, name in UNITS_S if end - start >= 2 * size or size == 1.0)

    def over_time(what: str, short: str, values: Callable[[History], Sequence[float]]) -> str:
        series = [
            Series(name if several else short, [at / unit_s for at in history.times], values(history))
            for name, history in histories.items()
        ]
        return lines(what, series, x_label=unit, steps=True)

    plots = [
        over_time(f"{units} in use", "in use", lambda history: history.in_use),
        over_time("Jobs waiting", "waiting", lambda history: history.waiting),
        *(
            gantt(
                f"Timeline of jobs, {name}" if several else "Timeline of jobs",
                _bars(history, unit_s),
                x_label=unit,
                span=(start / unit_s, end / unit_s),
            )
            for name, history in histories.items()
        ),
        _waits(histories, unit_s, unit, waiters),
    ]
    return page(title, report, plots)


def speed_page(report: Mapping[str, Any], seconds: Sequence[float]) -> str:
    """Return a page with the time of each decision: in their order, and sorted by length."""
    ordered = sorted(seconds)
    ms = [1000 * second for second in ordered[: int(len(ordered) * SHOWN) or 1]]
    size = max(1, len(seconds) // SLICES)
    slices = [seconds[first : first + size] for first in range(0, len(seconds) - size + 1, size)]
    plots = [
        lines(
            "Decisions a second, as the run went on",
            [Series("decisions/s", [size * n for n in range(len(slices))], [len(s) / (sum(s) or 1.0) for s in slices])],
            x_label="decisions made",
            steps=True,
        ),
        lines(
            f"Time of a decision, shortest to longest without the last {100 * (1 - SHOWN):g} %, ms",
            [Series("ms", [100 * n / (len(ordered) or 1) for n in range(len(ms))], ms)],
            x_label="percent of the decisions",
        ),
    ]
    title = f"{report['jobs']:,} decisions on {report['nodes']:,} nodes under {report['policy']}"
    return page(title, report, plots)


def beside(reports: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return several reports as one, each under its name; a single report as it is."""
    return reports if len(reports) > 1 else next(iter(reports.values()))


def _waits(histories: Mapping[str, History], unit_s: float, unit: str, waiters: str) -> str:
    """The waits of each user of a single run, or of all users of each of several."""
    if len(histories) > 1:
        series = [
            _spread(name, [wait for some in history.waits.values() for wait in some], unit_s)
            for name, history in histories.items()
        ]
        return lines(f"Waits, shortest to longest, {unit}", series, x_label="percent of the jobs")
    waits = [(user, some) for history in histories.values() for user, some in sorted(history.waits.items())[:8]]
    return lines(
        f"Fairness: waits of each {waiters}, shortest to longest, {unit}",
        [_spread(user, some, unit_s) for user, some in waits],
        x_label=f"percent of the {waiters}'s jobs",
    )


def _bars(history: History, unit_s: float) -> list[Bar]:
    """Return a bar for each run on each device or, without devices, each node; in lanes if several share one."""
    ends: dict[str, list[float]] = {}
    found: list[tuple[str, int, Bar]] = []
    for run in sorted(history.runs, key=lambda one: (one.start, one.allocation.id)):
        for member in run.allocation.placement.members:
            for row in [grant.uuid for grant in member.grants] or [member.node]:
                lane = _lane(ends.setdefault(row, []), run)
                name = f"job {run.allocation.job_id} of {run.allocation.user}"
                found.append((row, lane, Bar(f"{row} {lane}", run.start / unit_s, run.end / unit_s, name)))
    names = {**_short(sorted(ends)), **{row: _cut(name) for row, name in history.names.items()}}
    ordered = sorted(found[:BARS], key=lambda one: (one[0], one[1], one[2].start))
    return [bar._replace(caption="" if lane else names[row]) for row, lane, bar in ordered]


def _lane(ends: list[float], run: Run) -> int:
    """The first lane that is free when the run begins; the run takes it until its end."""
    lane = next((index for index, end in enumerate(ends) if end <= run.start), len(ends))
    ends[lane : lane + 1] = [run.end]
    return lane


def _cut(name: str) -> str:
    """Return a name's end, which distinguishes devices of one node."""
    return name if len(name) <= NAME_LENGTH + 1 else f"…{name[-NAME_LENGTH:]}"


def _short(names: Sequence[str]) -> dict[str, str]:
    """Return the names without the prefix of UUIDs, cut if they stay distinct, else their ends."""
    cut = {name: name.removeprefix("GPU-")[:NAME_LENGTH] for name in names}
    return cut if len(set(cut.values())) == len(names) else {name: name[-NAME_LENGTH:] for name in names}


def _spread(user: str, waits: Sequence[float], unit_s: float) -> Series:
    ordered = sorted(waits)
    last = max(1, len(ordered) - 1)
    return Series(user, [100 * index / last for index in range(len(ordered))], [wait / unit_s for wait in ordered])
