"""What devices were like."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """What the readings of one step were: `t` is its start (Unix seconds), `coverage` the part of it that had any.

    `p95` is at most 1 % of itself away from the reading of that rank.
    """

    t: int
    min: float
    mean: float
    max: float
    p95: float
    coverage: float


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """A device's readings from `from` to `to` (Unix seconds), by series, in steps of `step_s`.

    A step without a reading is left out.
    """

    uuid: str
    from_: int
    to: int
    step_s: int
    series: Mapping[str, tuple[HistoryPoint, ...]]
