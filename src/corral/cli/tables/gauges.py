"""GPUs with bars, for `corral status --watch`: one line each, within the width of the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from corral.cli.screen import clipped, painted
from corral.client import DeviceRow
from corral.formatting.bars import bar
from corral.formatting.device_names import short_model
from corral.formatting.device_words import in_gib, known, memory_style, parts_in_use

_LEAST_BAR, _LONGEST_BAR = 4, 20
_SHORTEST_MODEL, _LONGEST_MODEL = 4, 18
_HOLDERS = 12
"""The columns reserved for the jobs of a GPU, before columns of variable width get more."""


@dataclass(frozen=True, slots=True)
class GaugeLayout:
    """The division of a terminal's columns. A part that is False or 0 is left out."""

    columns: int
    model: int
    heat: bool
    power: int
    bar: int


def layout_for(columns: int, devices: Sequence[DeviceRow]) -> GaugeLayout:
    """The parts that fit, in this order: temperature, power, the GPU's jobs, the model, longer bars."""
    # The index, two bars with utilization and memory beside them, and a state.
    left = columns - 4 - 2 * _LEAST_BAR - 7 - 12 - 9
    heat = left >= 6
    left -= 6 if heat else 0
    power = max((len(_power(device)) for device in devices), default=0)
    power = power if left > power else 0
    left -= power + 1 if power else 0
    left -= min(_HOLDERS, max(0, left))
    longest = max((len(short_model(device)) for device in devices), default=0)
    model = min(longest, _LONGEST_MODEL, left - 1) if left > _SHORTEST_MODEL else 0
    left -= model + 1 if model else 0
    bar = min(_LONGEST_BAR, _LEAST_BAR + left // 2)
    return GaugeLayout(columns, model, heat, power, bar)


def bars_line(device: DeviceRow, who: str, layout: GaugeLayout, state_style: str) -> str:
    """The line of one GPU: temperature, power, utilization, memory, state, and `who` has it."""
    busy, used = parts_in_use(device)
    memory = f"{in_gib(device.memory_used_mib)}/{in_gib(device.memory_total_mib)}G"
    parts: list[tuple[str, str | None]] = [(f"[{known(device.index)}]".ljust(4), None)]
    if layout.model:
        parts.append((clipped(short_model(device), layout.model).ljust(layout.model + 1), None))
    if layout.heat:
        parts.append((f"{known(device.temperature_c):>3}'C ", None))
    if layout.power:
        parts.append((_power(device).rjust(layout.power) + " ", None))
    parts += [
        (bar(busy, layout.bar), "cyan" if busy is not None else "red"),
        (f"{known(device.utilization_pct)}%".rjust(5) + "  ", None),
    ]
    parts += [(bar(used, layout.bar), memory_style(used)), (f" {memory:<9}  ", None)]
    left = layout.columns - sum(len(text) for text, _ in parts)
    parts.append((clipped(device.state, left), state_style))
    left -= len(device.state) + 1
    if who and left > 3:
        parts.append((f" {clipped(who, left)}", None))
    return "".join(text if style is None else painted(text, style) for text, style in parts)


def _power(device: DeviceRow) -> str:
    limit_w = device.power_limit_w if device.job_power_limit_w is None else device.job_power_limit_w
    return f"{known(device.power_w)}{'' if limit_w is None else f'/{limit_w:.0f}'}W"
