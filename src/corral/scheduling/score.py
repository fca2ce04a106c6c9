"""How good it would be to serve one member of a request here: small functions of a node's columns, summed by weight.

Higher is better. Each takes all options at once, so that ranking a fleet is array work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corral.model.units import MILLI_PER_DEVICE
from corral.scheduling.columns import CPU, Columns, Rows, Shape

Floats = NDArray[np.float64]


class Tries(IntEnum):
    """Which slots of a node a score compares; what it does not tell apart is settled by least free, then by index."""

    NODES = 0
    SHARES = 1
    SLOTS = 2


@dataclass(frozen=True, slots=True)
class Options:
    """Ways to serve one member: option i takes the slots `slots[:, i]` of row `rows[i]`; all of them fit."""

    shape: Shape
    rows: Rows
    slots: Rows


class Score(Protocol):
    """A preference. `version` grows when answers given before no longer hold, though the rows have not changed."""

    @property
    def tries(self) -> Tries:
        """How finely it compares."""
        ...

    @property
    def version(self) -> int:
        """Grows when every answer has to be asked for again."""
        ...

    def __call__(self, columns: Columns, options: Options) -> Floats:
        """float64[n], a score for each option."""
        ...


@dataclass(frozen=True, slots=True)
class Weighted:
    """The sum of scores, each times its weight."""

    parts: tuple[tuple[float, Score], ...]

    @property
    def tries(self) -> Tries:
        return max((score.tries for _, score in self.parts), default=Tries.NODES)

    @property
    def version(self) -> int:
        return sum(score.version for _, score in self.parts)

    def __call__(self, columns: Columns, options: Options) -> Floats:
        total = np.zeros(len(options.rows))
        for weight, score in self.parts:
            total += weight * score(columns, options)
        return total


@dataclass(frozen=True, slots=True)
class Pack:
    """The part of the node's devices that would be handed out: full nodes first, so that empty ones stay empty."""

    sign: float = 1.0
    tries: Tries = Tries.NODES
    version: int = 0

    def __call__(self, columns: Columns, options: Options) -> Floats:
        free = columns.free_milli[:, options.rows]
        whole = np.maximum((free >= 0).sum(axis=0), 1) * MILLI_PER_DEVICE
        left = np.maximum(free, 0).sum(axis=0) - _asked_milli(options)
        return np.asarray(self.sign * (1.0 - left / whole), dtype=np.float64)


def spread() -> Pack:
    """The opposite of packing: empty nodes first, so that jobs meet as few others as can be."""
    return Pack(sign=-1.0)


@dataclass(frozen=True, slots=True)
class BestFit:
    """What the node would have left, CPU and GPU in equal parts, in hundredths of the largest node: least first.

    int(100 x (1 - 0.5 x CPU left / largest CPU - 0.5 x GPU left / most GPU)), as in the simulator of Weng et al.
    ("Beware of Fragmentation", USENIX ATC'23); the integer makes near equals equal, so that earlier nodes fill first.
    """

    largest_cpu_milli: int
    largest_gpu_milli: int
    tries: Tries = Tries.NODES
    version: int = 0

    def __call__(self, columns: Columns, options: Options) -> Floats:
        cpu = columns.amounts[CPU, options.rows] - options.shape.request.cpu_milli
        gpu = np.maximum(columns.free_milli[:, options.rows], 0).sum(axis=0) - _asked_milli(options)
        left = 0.5 * (cpu / self.largest_cpu_milli) + 0.5 * (gpu / self.largest_gpu_milli)
        return np.asarray(np.trunc(100.0 * (1.0 - left)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class EarlierFirst:
    """A mild wish for nodes that come earlier in the fixed order: 0 for the first, -1 for the last."""

    tries: Tries = Tries.NODES
    version: int = 0

    def __call__(self, columns: Columns, options: Options) -> Floats:
        return np.asarray(-options.rows / max(1, len(columns)), dtype=np.float64)


@dataclass(slots=True)
class RoundRobin:
    """The next node in turn after the last one used. The turn belongs to the view; `turn_to` follows it."""

    turn: int = 0
    version: int = 0
    tries: Tries = Tries.NODES

    def turn_to(self, row: int) -> None:
        """The row whose turn it is now."""
        self.turn = row
        self.version += 1

    def __call__(self, columns: Columns, options: Options) -> Floats:
        total = max(1, len(columns))
        return np.asarray(-((options.rows - self.turn) % total) / total, dtype=np.float64)


@dataclass(slots=True)
class Readings:
    """What telemetry last said of each slot: availability (0..1) and utilisation (percent); unread slots are worst."""

    columns: Columns
    availability: Floats = field(init=False)
    utilization_pct: Floats = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.columns.width, len(self.columns))
        self.availability = np.zeros(shape)
        self.utilization_pct = np.full(shape, 100.0)

    def observe(self, row: int, slot: int, availability: float, utilization_pct: int | None) -> None:
        """Take in a reading; `availability` is that of `corral.model.device.availability_score`."""
        self.availability[slot, row] = availability
        self.utilization_pct[slot, row] = 100.0 if utilization_pct is None else float(utilization_pct)
        self.columns.touched.add(row)


@dataclass(frozen=True, slots=True)
class Availability:
    """0.6 x free memory + 0.4 x idle utilisation of the devices that would be taken, their mean."""

    readings: Readings
    tries: Tries = Tries.SLOTS
    version: int = 0

    def __call__(self, columns: Columns, options: Options) -> Floats:
        return _mean_of_slots(self.readings.availability, options)


@dataclass(frozen=True, slots=True)
class LeastLoaded:
    """The devices that work least now: minus their mean utilisation, as a fraction."""

    readings: Readings
    tries: Tries = Tries.SLOTS
    version: int = 0

    def __call__(self, columns: Columns, options: Options) -> Floats:
        return _mean_of_slots(self.readings.utilization_pct, options) / -100.0


def weighted(parts: Sequence[tuple[float, Score]]) -> Score:
    """The scores as one; a single one of weight 1 is itself. Raises ValueError for a weight below zero."""
    if any(weight < 0 for weight, _ in parts):
        raise ValueError("a score's weight is at least 0")
    if len(parts) == 1 and parts[0][0] == 1.0:
        return parts[0][1]
    return Weighted(tuple(parts))


def _asked_milli(options: Options) -> int:
    return options.shape.request.devices * options.shape.request.share_milli


def _mean_of_slots(readings: Floats, options: Options) -> Floats:
    if not len(options.slots):
        return np.zeros(len(options.rows))
    return np.asarray(readings[options.slots, options.rows].mean(axis=0), dtype=np.float64)
