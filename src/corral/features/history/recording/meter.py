"""Measures the use of granted devices: used and idle time, energy, and memory, by allocation, device and hour.

Lost measurements make time unmetered and change nothing else: the ledger knows the grants.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from corral.clock import Clock
from corral.core.model.devices.device import DeviceSample
from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.job_samples import JobSample, job_samples
from corral.core.model.runs.run_history import MeteredHour
from corral.core.model.view import View
from corral.features.history.recording.meter_table import MeterTable
from corral.features.history.recording.series import LEAST_USED_PCT

KEPT_HOURS = 366 * 24
"""Measurements are kept this long; earlier time is unmetered."""

WRITE_INTERVAL_S = 60.0

_HOUR_MS = 3_600_000
_MOST_WAITING = 200_000
"""The most rows that wait while the disk is full; later time is unmetered."""

_AT_ONCE = 5_000


class _Part(NamedTuple):
    """One allocation's part of a reading of a device: the time that it covers, and the values."""

    allocation_id: str
    uuid: str
    begin_ms: int
    end_ms: int
    utilization_pct: int | None
    power_mw: float | None
    memory_mib: int | None


class Meter:
    """Takes each new sample (`look`) and adds to the table every `WRITE_INTERVAL_S`.

    `look` and `close` are called on one thread; questions come from any thread.
    """

    def __init__(
        self,
        table: MeterTable,
        view: Callable[[], View],
        latest: Callable[[], Mapping[str, DeviceSample]],
        clock: Clock,
        interval_s: float,
    ) -> None:
        """`interval_s` is how often the devices are sampled."""
        self._table = table
        self._view = view
        self._latest = latest
        self._clock = clock
        self._interval_ms = round(interval_s * 1000)
        self._lock = threading.Lock()
        self._waiting: dict[tuple[int, str, str], MeteredHour] = {}
        self._last_ms: dict[str, int] = {}
        self._write_at = clock.monotonic() + WRITE_INTERVAL_S
        self._forgotten_before = 0

    def look(self) -> None:
        """Take new samples, and write when it is time."""
        samples, since_ms = self._fresh()
        if samples:
            parts = parts_of(self._view(), samples, since_ms)
            with self._lock:
                for part in parts:
                    self._add(part)
        now = self._clock.monotonic()
        if now >= self._write_at:
            self._write_at = now + WRITE_INTERVAL_S
            self.write()

    def write(self) -> None:
        """Write the waiting rows. If that fails they stay, and the history reports that nothing is written."""
        try:
            with self._lock:
                while some := dict(islice(self._waiting.items(), _AT_ONCE)):
                    self._table.add(list(some.values()))
                    for key in some:
                        del self._waiting[key]
            before = int(self._clock.now() // 3600) - KEPT_HOURS
            if before > self._forgotten_before:
                self._table.forget(before)
                self._forgotten_before = before
        except BackendFailed:
            return

    def close(self) -> None:
        """Write the waiting rows."""
        self.write()

    def hours(self, first: int, last: int) -> Iterator[Sequence[MeteredHour]]:
        """Yield the measurements of the hours from `first` to `last`, in batches. Raises BackendFailed."""
        return self._merged(lambda: self._table.rows(first, last), lambda row: first <= row.hour <= last)

    def hours_of(self, allocations: Collection[str], first: int, last: int) -> Iterator[Sequence[MeteredHour]]:
        """Yield the measurements of some allocations in these hours, in batches. Raises BackendFailed."""
        first = max(first, int(self._clock.now() // 3600) - KEPT_HOURS)
        return self._merged(
            lambda: self._table.rows_of(allocations, range(first, last + 1)),
            lambda row: first <= row.hour <= last and row.allocation_id in allocations,
        )

    def _merged(
        self, written: Callable[[], Iterator[list[MeteredHour]]], wanted: Callable[[MeteredHour], bool]
    ) -> Iterator[Sequence[MeteredHour]]:
        """Yield written and waiting rows, each once. The lock keeps writes out until both have been looked at."""
        with self._lock:
            waiting = {key: row for key, row in self._waiting.items() if wanted(row)}
            batches = written()
            batch = next(batches, None)
        recent = min((hour for hour, _, _ in waiting), default=None)
        while batch is not None:
            if recent is None or all(row.hour < recent for row in batch):
                yield batch
            else:
                yield [_joined(row, waiting.pop((row.hour, row.allocation_id, row.uuid), None)) for row in batch]
            batch = next(batches, None)
        yield list(waiting.values())

    def _fresh(self) -> tuple[dict[str, DeviceSample], dict[str, int]]:
        """Return the new samples, and for each the time from which it counts for its device.

        A reading covers the time since the one before. After a gap, or after the clock was set back, it covers one
        sampling interval, because the time before is unknown.
        """
        samples: dict[str, DeviceSample] = {}
        since_ms: dict[str, int] = {}
        for uuid, sample in self._latest().items():
            at_ms, before_ms = round(sample.taken_at * 1000), self._last_ms.get(uuid)
            if at_ms == before_ms or sample.fault is not None:
                continue
            self._last_ms[uuid] = at_ms
            near = before_ms is not None and 0 < at_ms - before_ms <= 2 * self._interval_ms
            since_ms[uuid] = before_ms if near and before_ms is not None else at_ms - self._interval_ms
            samples[uuid] = sample
        return samples, since_ms

    def _add(self, part: _Part) -> None:
        for row in rows_of(part):
            key = row.hour, row.allocation_id, row.uuid
            before = self._waiting.get(key)
            if before is not None:
                self._waiting[key] = _sum(before, row)
            elif len(self._waiting) < _MOST_WAITING:
                self._waiting[key] = row


def parts_of(view: View, samples: Mapping[str, DeviceSample], since_ms: Mapping[str, int]) -> list[_Part]:
    """Return each allocation's part of new samples. A sample covers the time from `since_ms` on.

    The whole power of a device is divided among its holders: by their utilization if it is known of all and not all
    zero, else by their shares.
    """
    holders: dict[str, list[JobSample]] = defaultdict(list)
    for one in job_samples(view, samples):
        holders[one.sample.uuid].append(one)
    parts = []
    for uuid, here in holders.items():
        power_mw = samples[uuid].power_mw
        for one, weight in zip(here, _weights(here), strict=True):
            sample = one.sample
            parts.append(
                _Part(
                    one.allocation.id,
                    uuid,
                    max(since_ms[uuid], round(one.allocation.created_at * 1000)),
                    round(sample.taken_at * 1000),
                    sample.utilization_pct,
                    None if power_mw is None else power_mw * weight,
                    sample.memory_used_mib,
                )
            )
    return parts


def rows_of(part: _Part) -> Iterator[MeteredHour]:
    """Yield the rows of a part, one for each hour that it touches."""
    begin_ms = part.begin_ms
    while begin_ms < part.end_ms:
        hour = begin_ms // _HOUR_MS
        end_ms = min(part.end_ms, (hour + 1) * _HOUR_MS)
        length_ms, used_pct = end_ms - begin_ms, part.utilization_pct
        yield MeteredHour(
            hour,
            part.allocation_id,
            part.uuid,
            length_ms if used_pct is not None and used_pct >= LEAST_USED_PCT else 0,
            length_ms if used_pct is not None and used_pct < LEAST_USED_PCT else 0,
            None if part.power_mw is None else round(part.power_mw * length_ms / 1000),
            part.memory_mib,
        )
        begin_ms = end_ms


def _weights(holders: Sequence[JobSample]) -> list[float]:
    """Return each holder's fraction of a device's power; the fractions add up to 1."""
    used = [one.sample.utilization_pct for one in holders]
    known = _known(*used)
    if len(known) == len(used) and any(known):
        return [pct / sum(known) for pct in known]
    whole = sum(one.share_milli for one in holders)
    return [one.share_milli / whole for one in holders]


def _joined(row: MeteredHour, more: MeteredHour | None) -> MeteredHour:
    return row if more is None else _sum(row, more)


def _sum(one: MeteredHour, other: MeteredHour) -> MeteredHour:
    """Two measures of the same hour."""
    return one._replace(
        used_ms=one.used_ms + other.used_ms,
        idle_ms=one.idle_ms + other.idle_ms,
        energy_mj=_sum_known(one.energy_mj, other.energy_mj),
        memory_most_mib=max(_known(one.memory_most_mib, other.memory_most_mib), default=None),
    )


def _sum_known(*values: int | None) -> int | None:
    """The sum of those that are known, None if none is."""
    known = _known(*values)
    return sum(known) if known else None


def _known(*values: int | None) -> list[int]:
    return [value for value in values if value is not None]
