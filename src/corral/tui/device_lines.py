"""A line for each device: its past and present utilization, memory, state and holders; and more text about one
device.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from corral.core.model.answers.devices import DeviceRow
from corral.formatting.bars import bar, spark_line
from corral.formatting.device_names import device_called, short_model
from corral.formatting.device_words import (
    STATE_STYLES,
    health_words,
    holder_words,
    in_gib,
    known,
    memory_style,
    part_words,
    parts_in_use,
)
from corral.formatting.times import clock_time
from corral.tui.sparks import MOST_STEPS, STEP_S, Sparks
from corral.tui.styled_lines import Line, Span, cell, clipped_to, line_of

_LONGEST_CALLED, _LONGEST_MODEL = 14, 22


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """The width of each part of a line in columns; parts of 0 are left out."""

    columns: int
    called: int
    spark: int
    bar: int
    heat: int
    power: int
    model: int
    who: int


def device_layout(columns: int, devices: Sequence[DeviceRow], several: bool) -> DeviceLayout:
    """Return the layout that fits: at 80 columns all but temperature, power and model. Wider terminals also get these,
    and longer spark lines and bars.
    """
    longest = max((len(device_called(device, several)) for device in devices), default=1)
    called = min(_LONGEST_CALLED, max(3, longest))
    # The two bars with their numbers, the state, and the blanks between.
    left = columns - called - 8 - 6 - 4 - 8 - 10 - 7
    spark = max(0, min(10, left - 13))
    left -= spark + 12
    heat, power = (5 if left >= 11 else 0), (8 if left >= 20 else 0)
    left -= heat + power
    longest_model = max((len(short_model(device)) for device in devices), default=0)
    model = min(_LONGEST_MODEL, longest_model)
    model = model if left >= model + 4 else 0
    left = max(0, left - (model + 1 if model else 0))
    longer_spark = min(MOST_STEPS - spark, left // 2) if spark else 0
    longer_bars = min(12, (left - longer_spark) // 3)
    return DeviceLayout(
        columns, called, spark + longer_spark, 8 + longer_bars, heat, power, model, 12 + left - longer_spark
    )


def device_title(layout: DeviceLayout) -> str:
    """The titles of the columns."""
    titles = ["GPU".ljust(layout.called)]
    if layout.spark:
        minutes = f"LAST {layout.spark * STEP_S / 60:.0f} MIN"
        titles.append((minutes if len(minutes) <= layout.spark else "LAST")[: layout.spark].ljust(layout.spark))
    titles += ["USE".ljust(layout.bar + 5), "MEMORY".ljust(layout.bar - 2 + 9)]
    titles += ["HEAT"] if layout.heat else []
    titles += ["POWER".ljust(layout.power - 1)] if layout.power else []
    titles += ["MODEL".ljust(layout.model)] if layout.model else []
    return " ".join([*titles, "STATE".ljust(10), "WHO"])


def device_line(device: DeviceRow, layout: DeviceLayout, sparks: Sparks, several: bool, now: float) -> Line:
    """Return the line of one device. Unknown values are question marks, or gaps of a spark line."""
    busy, used = parts_in_use(device)
    spans: list[Span] = [cell(device_called(device, several), layout.called)]
    if layout.spark:
        spans.append((spark_line(sparks.last(device.uuid, layout.spark, now)), "cyan"))
    spans += [
        (bar(busy, layout.bar), "cyan" if busy is not None else "red"),
        cell(f"{known(device.utilization_pct)}%", 4, right=True),
        (bar(used, layout.bar - 2), memory_style(used)),
        cell(f"{in_gib(device.memory_used_mib)}/{in_gib(device.memory_total_mib)}G", 8),
    ]
    if layout.heat:
        spans.append(cell(f"{known(device.temperature_c)}'C", layout.heat - 1, right=True))
    if layout.power:
        spans.append(cell(f"{known(device.power_w)}W", layout.power - 1, right=True))
    if layout.model:
        spans.append(cell(short_model(device), layout.model))
    spans.append(cell(device.state, 10, STATE_STYLES.get(device.state, "bold")))
    spans.append((clipped_to(_who(device), max(layout.who, 1)), None))
    return line_of(*spans, columns=layout.columns)


def about_device(device: DeviceRow, several: bool) -> str:
    """Return the facts that its line has no room for: model, why it takes no job, processes of others on it."""
    words = [f"GPU {device_called(device, several)} {short_model(device)}, {device.state}"]
    if device.state_since is not None:
        words.append(f"since {clock_time(device.state_since)}")
    told = " ".join(words) + (f": {device.state_reason}" if device.state_reason else "")
    if health := health_words(device):
        told += f"; {health}"
    holders = {holder.job for holder in device.holders}
    strangers = [process for process in device.processes if process.job not in holders]
    for process in strangers:
        place = "" if process.container is None else f" in {process.container}"
        told += f"; {process.user or '?'}/{process.pid}{place} runs {process.command or '?'}"
    if device.pod is not None:
        told += f"; {device.pod}"
    for part in device.parts:
        told += f"; {part_words(part)}"
    if device.throttled_by:
        told += f"; clocks held down by {', '.join(device.throttled_by)}"
    return told


def _who(device: DeviceRow) -> str:
    """Return the jobs that have it; without any, the owners of processes on it."""
    if device.holders:
        return " ".join(map(holder_words, device.holders))
    if device.pod is not None:
        return str(device.pod)
    if device.parts:
        return ", ".join(map(part_words, device.parts))
    return " ".join(f"{process.container or process.user or '?'}/pid {process.pid}" for process in device.processes)
