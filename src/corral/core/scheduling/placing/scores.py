"""Scores: how good it is to place one member of a request on given slots, computed from the columns; higher is better.

A policy ranks nodes by a weighted sum of scores. Each score handles all options at once, as arrays.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.state.columns import CPU, Columns, Rows, Shape

Floats = NDArray[np.float64]


class Granularity(IntEnum):
    """The differences that a score can see: between nodes, between the shares free on devices, or between devices.

    Among slots that a score cannot tell apart, the placement takes the one with the least free, then the lowest.
    """

    NODES = 0
    SHARES = 1
    SLOTS = 2


class PlacementOptions(NamedTuple):
    """Ways to place one member: option i takes the slots `slots[:, i]` of row `rows[i]`; all of them fit.

    `rows` is intp[n], `slots` intp[devices, n].
    """

    shape: Shape
    rows: Rows
    slots: Rows


class Score(Protocol):
    """A score. `version` grows if earlier results no longer hold although the rows have not changed."""

    @property
    def granularity(self) -> Granularity:
        """The differences that the score can see."""
        ...

    @property
    def version(self) -> int:
        """A number that grows when every row must be scored anew."""
        ...

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        """float64[n]: the score of each option."""
        ...


DeviceScorer = Callable[[Columns, Rows, Rows], Floats]
"""float64[n]: how good the device in slot `slots[i]` of row `rows[i]` is, independent of the request."""


class DeviceScore(ABC):
    """A score of single devices. The score of a set of devices is their mean."""

    __slots__ = ()

    @property
    def granularity(self) -> Granularity:
        return Granularity.SLOTS

    @abstractmethod
    def each(self, columns: Columns, rows: Rows, slots: Rows) -> Floats:
        """See `DeviceScorer`."""

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        if not len(options.slots):
            return np.zeros(len(options.rows))
        each = [self.each(columns, options.rows, slots) for slots in options.slots]
        return np.asarray(np.mean(each, axis=0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Weighted:
    """The sum of scores, each times its weight."""

    parts: tuple[tuple[float, Score], ...]

    @property
    def granularity(self) -> Granularity:
        return max((score.granularity for _, score in self.parts), default=Granularity.NODES)

    @property
    def version(self) -> int:
        return sum(score.version for _, score in self.parts)

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        total = np.zeros(len(options.rows))
        for weight, score in self.parts:
            total += weight * score(columns, options)
        return total

    def each(self, columns: Columns, rows: Rows, slots: Rows) -> Floats:
        """The part of the sum that differs between devices."""
        total = np.zeros(len(slots))
        for weight, score in self.parts:
            if isinstance(score, DeviceScore):
                total += weight * score.each(columns, rows, slots)
        return total


@dataclass(frozen=True, slots=True)
class Pack:
    """The fraction of the node's GPU capacity that would be allocated: full nodes come first, empty ones stay empty."""

    sign: float = 1.0
    granularity: Granularity = Granularity.NODES
    version: int = 0

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        free = columns.free_milli[options.rows]
        whole = np.maximum(columns.over_slots(free >= 0), 1) * MILLI_PER_DEVICE
        left = columns.over_slots(np.maximum(free, 0)) - _asked_milli(options)
        return np.asarray(self.sign * (1.0 - left / whole), dtype=np.float64)


def spread() -> Pack:
    """The opposite of packing: emptier nodes first. Jobs then share nodes with as few others as possible."""
    return Pack(sign=-1.0)


@dataclass(frozen=True, slots=True)
class BestFit:
    """Best fit: least CPU and GPU left on the node, both weighted equally, relative to the largest node.

    int(100 x (1 - 0.5 x CPU left / largest CPU - 0.5 x GPU left / most GPU)), as in the simulator of Weng et al.
    ("Beware of Fragmentation", USENIX ATC'23). Rounding makes near equals equal: earlier nodes then fill first.
    """

    largest_cpu_milli: int
    largest_gpu_milli: int
    granularity: Granularity = Granularity.NODES
    version: int = 0

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        cpu = columns.free_host[CPU, options.rows] - options.shape.request.cpu_milli
        gpu = columns.over_slots(np.maximum(columns.free_milli[options.rows], 0)) - _asked_milli(options)
        left = 0.5 * (cpu / self.largest_cpu_milli) + 0.5 * (gpu / self.largest_gpu_milli)
        return np.asarray(np.trunc(100.0 * (1.0 - left)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class EarlierFirst:
    """A mild preference for nodes that come earlier in the fixed order: 0 for the first, -1 for the last."""

    granularity: Granularity = Granularity.NODES
    version: int = 0

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        return np.asarray(-options.rows / max(1, len(columns)), dtype=np.float64)


class RoundRobin(DeviceScore):
    """Round robin: the node after the last one used, and there the device after the last one allocated.

    `set_turn` and `handed_out` must be called as allocations are made.
    """

    def __init__(self, columns: Columns) -> None:
        self.version = 0
        self.turn = 0
        self.next_slot: Rows = np.zeros(len(columns), dtype=np.intp)

    def set_turn(self, row: int) -> None:
        """Set the row whose turn it is."""
        self.turn = row
        self.version += 1

    def handed_out(self, columns: Columns, row: int, slots: Collection[int]) -> None:
        """Record that these slots of the row were allocated last.

        The next slot follows them, cyclically: it comes after the slot that is followed by the most other slots.
        """
        count, given = len(columns.uuids[row]), sorted(slots)
        stretches = [(after - slot) % count for slot, after in zip(given, (*given[1:], given[0]), strict=True)]
        _, last = max(zip((stretch or count for stretch in stretches), given, strict=True))
        self.next_slot[row] = (last + 1) % count
        self.version += 1

    def each(self, columns: Columns, rows: Rows, slots: Rows) -> Floats:
        """See `DeviceScorer`."""
        total, width = max(1, len(columns)), max(1, columns.width)
        counts = np.count_nonzero(columns.free_milli[rows] >= 0, axis=1).clip(1)
        rank = (rows - self.turn) % total + (slots - self.next_slot[rows]) % counts / width
        return np.asarray(-rank / total, dtype=np.float64)

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        if len(options.slots):
            return super().__call__(columns, options)
        total = max(1, len(columns))
        return np.asarray(-((options.rows - self.turn) % total) / total, dtype=np.float64)


@dataclass(slots=True)
class Readings:
    """The last samples of each slot: availability (0 to 1) and utilisation (percent).

    Slots that could not be read rank last, after fully utilised ones.
    """

    columns: Columns
    availability: Floats = field(init=False)
    utilization_pct: Floats = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.columns.width, len(self.columns))
        self.availability = np.zeros(shape)
        self.utilization_pct = np.full(shape, UNREAD_PCT)

    def observe(self, row: int, slot: int, availability: float, utilization_pct: int | None) -> None:
        """Set the values of a slot. `availability` comes from `corral.core.model.devices.device.availability_score`."""
        self.availability[slot, row] = availability
        self.utilization_pct[slot, row] = UNREAD_PCT if utilization_pct is None else float(utilization_pct)
        self.columns.changed_rows.add(row)


UNREAD_PCT = 102.0
"""The utilisation assumed for a device that does not report it."""


@dataclass(frozen=True, slots=True)
class Availability(DeviceScore):
    """The mean availability score of the devices: free memory and idle time, with the weight that the site sets."""

    readings: Readings
    version: int = 0

    def each(self, columns: Columns, rows: Rows, slots: Rows) -> Floats:
        """See `DeviceScorer`."""
        return np.asarray(self.readings.availability[slots, rows], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class LeastLoaded(DeviceScore):
    """A score that prefers the least utilised devices: minus their mean utilisation, as a fraction.

    Among equals, it prefers those with the least allocated: a job that has just started does not show in the samples
    yet. This part counts less than one percent.
    """

    readings: Readings
    version: int = 0

    def each(self, columns: Columns, rows: Rows, slots: Rows) -> Floats:
        """See `DeviceScorer`."""
        allocated = 1.0 - columns.free_milli[rows, slots] / MILLI_PER_DEVICE
        return np.asarray((self.readings.utilization_pct[slots, rows] + allocated / 2) / -100.0, dtype=np.float64)


def weighted(parts: Sequence[tuple[float, Score]]) -> Score:
    """The weighted sum of the scores; a single score of weight 1 is returned itself. Raises ValueError below zero."""
    if any(weight < 0 for weight, _ in parts):
        raise ValueError("a score's weight is at least 0")
    if len(parts) == 1 and parts[0][0] == 1.0:
        return parts[0][1]
    return Weighted(tuple(parts))


def each_of(score: Score) -> DeviceScorer | None:
    """The part of a score that differs between the devices of a node; None if there is none."""
    if score.granularity < Granularity.SLOTS:
        return None
    assert isinstance(score, DeviceScore | Weighted), "a score of granularity SLOTS scores single devices"
    return score.each


def _asked_milli(options: PlacementOptions) -> int:
    return options.shape.request.devices * options.shape.request.share_milli
