"""Granted, used, idle and wasted GPU time, energy and cost, grouped by any keys. Pure.

Every granted millisecond is exactly one of used, idle and unmetered. Sums are of integers: they do not depend on the
grouping.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corral.core.model.runs.run_history import MeteredHour, ReportBy
from corral.core.model.units import MILLI_PER_DEVICE, WEEKDAYS
from corral.features.accounting.answers import ReportRow
from corral.features.accounting.held_devices import HOUR_MS, NOTHING, HeldDevice, measured_within
from corral.features.accounting.price_list import COST_UNIT, PriceList

UNKNOWN = "unknown"
"""Stands for the model of a device that is gone, if its model was not kept."""
NO_NAMESPACE = "(none)"
"""Stands for the namespace of jobs that are no pods of others. No namespace can have this name."""

_GPU_HOUR = HOUR_MS * MILLI_PER_DEVICE
_MJ_PER_KWH = 3.6e9

LocalHour = Callable[[int], tuple[int, int]]
"""The hour of the day and the weekday (0 is Monday) on the wall clock, of Unix milliseconds."""

Key = tuple[str, ...]


class LocalTime(NamedTuple):
    """The wall clock: `at` gives hour and weekday, which change only at multiples of `step_ms`."""

    at: LocalHour
    step_ms: int = HOUR_MS


@dataclass(slots=True)
class Sums:
    """The sums of a row. Times are milliseconds times milli-GPU."""

    granted: int = 0
    used: int = 0
    idle: int = 0
    wasted: int = 0
    reserved: int = 0
    energy_mj: int | None = None
    cost: int = 0
    unpriced: int = 0

    def add(self, other: "Sums") -> None:
        """Count another's time, too."""
        self.granted += other.granted
        self.used += other.used
        self.idle += other.idle
        self.wasted += other.wasted
        self.reserved += other.reserved
        self.cost += other.cost
        self.unpriced += other.unpriced
        self.add_energy(other.energy_mj)

    def add_energy(self, energy_mj: int | None) -> None:
        """Count this energy; None is not known."""
        if energy_mj is not None:
            self.energy_mj = (self.energy_mj or 0) + energy_mj

    def row(self, names: Mapping[str, str]) -> ReportRow:
        """The same in hours, kWh and units of the currency."""
        return ReportRow(
            names,
            self.granted / _GPU_HOUR,
            self.used / _GPU_HOUR,
            self.idle / _GPU_HOUR,
            (self.granted - self.used - self.idle) / _GPU_HOUR,
            self.wasted / _GPU_HOUR,
            self.reserved / _GPU_HOUR,
            None if self.energy_mj is None else self.energy_mj / _MJ_PER_KWH,
            None if self.unpriced == self.granted else self.cost / COST_UNIT,
            self.unpriced / _GPU_HOUR,
        )


def report(
    devices: Iterable[HeldDevice],
    metered: Iterable[Sequence[MeteredHour]],
    by: Sequence[ReportBy],
    span_ms: tuple[int, int],
    *,
    prices: PriceList,
    local: LocalTime,
) -> dict[Key, Sums]:
    """Return the sums of grants in a span, and of their measurements, by the keys of `by`.

    `metered` are any hours, each row once, in batches.
    """
    keys = _Keys(by, local)
    sums: defaultdict[Key, Sums] = defaultdict(Sums)
    # Plain tuples of plain values: with hundreds of thousands of objects the garbage collector would stop all threads.
    known: dict[tuple[str, str], tuple[int, int, int, Key]] = {}
    for device in devices:
        since_ms, until_ms = max(device.begin_ms, span_ms[0]), min(device.end_ms, span_ms[1])
        if since_ms < until_ms:
            key = keys.of_device(device)
            known[device.allocation.id, device.uuid] = device.begin_ms, device.end_ms, device.milli, key
            for begin_ms, end_ms in keys.pieces(since_ms, until_ms):
                _grant(sums[keys.at(key, begin_ms)], device, begin_ms, end_ms, prices)
    for batch in metered:
        for row in batch:
            found = known.get((row[1], row[2]))
            if found is not None:
                _measure(sums, keys, row, found, span_ms)
    return dict(sums)


def _measure(
    sums: defaultdict[Key, Sums],
    keys: "_Keys",
    row: MeteredHour,
    held: tuple[int, int, int, Key],
    span_ms: tuple[int, int],
) -> None:
    """Add an hour's measurements of a device."""
    hour, _, _, used_ms, idle_ms, energy_mj, _ = row
    begin_ms, end_ms, milli, key = held
    hour_ms = hour * HOUR_MS
    until_ms = hour_ms + HOUR_MS
    length_ms = min(end_ms, until_ms) - max(begin_ms, hour_ms)
    if keys.by_hours and span_ms[0] <= hour_ms and until_ms <= span_ms[1] and used_ms + idle_ms <= length_ms:
        # The usual case: the hour need not be divided.
        one = sums[keys.at(key, hour_ms)]
        one.used += used_ms * milli
        one.idle += idle_ms * milli
        if energy_mj is not None:
            one.add_energy(energy_mj)
        return
    for since_ms, last_ms in keys.pieces(max(span_ms[0], hour_ms), min(span_ms[1], until_ms)):
        measured = measured_within(row, (begin_ms, end_ms), since_ms, last_ms)
        if measured is not NOTHING:
            one = sums[keys.at(key, since_ms)]
            one.used += measured.used_ms * milli
            one.idle += measured.idle_ms * milli
            one.add_energy(measured.energy_mj)


def rows_of(sums: Mapping[Key, Sums], by: Sequence[ReportBy], most: int) -> tuple[list[ReportRow], list[Sums]]:
    """Return at most `most` rows, and the sums left out: the largest rows come first, times in their order."""
    timed = any(word in _TIMES for word in by)
    ordered = sorted(sums, key=lambda key: _in_time(key, by) if timed else (-sums[key].granted, *key))
    rows = [sums[key].row(_names(key, by)) for key in ordered[:most]]
    return rows, [sums[key] for key in ordered[most:]]


def added(sums: Iterable[Sums]) -> Sums:
    """All of it together."""
    whole = Sums()
    for one in sums:
        whole.add(one)
    return whole


def _grant(sums: Sums, device: HeldDevice, begin_ms: int, end_ms: int, prices: PriceList) -> None:
    granted = (end_ms - begin_ms) * device.milli
    cost, unpriced_ms = prices.cost(device.model, device.milli, begin_ms, end_ms)
    sums.granted += granted
    sums.cost += cost
    sums.unpriced += unpriced_ms * device.milli
    if device.allocation.reserved:
        sums.reserved += granted
    if device.wasted_from_ms is not None:
        sums.wasted += max(0, end_ms - max(begin_ms, device.wasted_from_ms)) * device.milli


class _Keys:
    """The keys of devices and moments. A key has a place for each word; those of times are filled piece by piece."""

    def __init__(self, by: Sequence[ReportBy], local: LocalTime) -> None:
        self._by = by
        self._local = local
        self._timed = any(word in _TIMES for word in by)
        self._cells: dict[int, tuple[int, int]] = {}
        self._at: dict[tuple[Key, tuple[int, int]], Key] = {}
        self.by_hours = not self._timed or local.step_ms == HOUR_MS
        """Whether no key changes within an hour."""

    def of_device(self, device: HeldDevice) -> Key:
        return tuple("" if word in _TIMES else _OF_DEVICE[word](device) for word in self._by)

    def at(self, key: Key, at_ms: int) -> Key:
        """The key with its times."""
        if not self._timed:
            return key
        step = at_ms // self._local.step_ms
        cell = self._cells.get(step)
        if cell is None:
            hour, weekday = self._local.at(step * self._local.step_ms)
            cell = self._cells[step] = (hour, weekday)
        found = self._at.get((key, cell))
        if found is None:
            told = {ReportBy.HOUR: f"{cell[0]:02}:00", ReportBy.WEEKDAY: WEEKDAYS[cell[1]]}
            found = tuple(told.get(word, part) for word, part in zip(self._by, key, strict=True))
            self._at[key, cell] = found
        return found

    def pieces(self, begin_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
        """The stretch of time in pieces within which no time of a key changes."""
        step_ms, first = self._local.step_ms, begin_ms
        while first < end_ms:
            last = min(end_ms, (first // step_ms + 1) * step_ms) if self._timed else end_ms
            yield first, last
            first = last


def _job_key(device: HeldDevice) -> str:
    return f"{device.allocation.job_id}\n{device.allocation.job_name}"


_OF_DEVICE: Mapping[ReportBy, Callable[[HeldDevice], str]] = {
    ReportBy.USER: lambda device: device.allocation.user,
    ReportBy.PROJECT: lambda device: device.allocation.project,
    ReportBy.QUEUE: lambda device: device.allocation.queue,
    ReportBy.JOB: _job_key,
    ReportBy.MODEL: lambda device: device.model or UNKNOWN,
    ReportBy.NODE: lambda device: device.node,
    ReportBy.NAMESPACE: lambda device: device.allocation.namespace or NO_NAMESPACE,
}
_TIMES = (ReportBy.HOUR, ReportBy.WEEKDAY)


def _names(key: Key, by: Sequence[ReportBy]) -> dict[str, str]:
    names: dict[str, str] = {}
    for word, part in zip(by, key, strict=True):
        names[word.value] = part
        if word is ReportBy.JOB:
            names[word.value], _, names["name"] = part.partition("\n")
    return names


def _in_time(key: Key, by: Sequence[ReportBy]) -> tuple[str, ...]:
    places = zip(by, key, strict=True)
    return tuple(str(WEEKDAYS.index(part)) if word is ReportBy.WEEKDAY else part for word, part in places)
