"""Turns the newest samples into readings of devices, jobs, users, projects and nodes. Pure.

A group's history consists of the readings of its devices: their distributions are merged, and each reading covers the
time divided by the number of devices. `SUMMED` series are added up at each moment, but only if no part is missing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.core.model.devices.device import DeviceSample
from corral.core.model.jobs.job_samples import JobSample, job_samples
from corral.core.model.view import View
from corral.features.history.recording.series import SERIES, DeviceReadings, readings_of

SUMMED = ("memory_used_mib", "power_w", "ecc_errors")
"""The series whose value for several devices is the sum over the devices."""

TOGETHER = 1023
"""The part of a job's readings that its devices have together; those of a device have its number, 1022 at most."""

JOBS_A_BLOCK = 32
"""The number of consecutive jobs that share their blocks, so that many short jobs need few rows."""

_SETTLED_INTERVALS = 2
"""A sum needs a device of a user or project only after this many intervals: earlier it has no sample yet."""

_IS_SUMMED = tuple(name in SUMMED for name in SERIES)

Values = tuple[float | None, ...]


class JobPart(NamedTuple):
    """The source of readings: a launch of a job, and one of its devices, or `TOGETHER`."""

    sequence: int
    launch: int
    part: int


@dataclass(slots=True)
class NewReadings:
    """The readings since the last look: of each device and group by its key, and of each part of a job."""

    named: list[tuple[str, DeviceReadings]] = field(default_factory=list)
    jobs: list[tuple[JobPart, DeviceReadings]] = field(default_factory=list)


class _Part(NamedTuple):
    """The values of one device of several; `covered_s` is None if they are not new."""

    at: float
    covered_s: float | None
    values: Values


@dataclass(slots=True)
class _Holdings:
    """The devices of a user or project: the parts with known values, and the number of devices."""

    parts: list[_Part] = field(default_factory=list)
    devices: int = 0


def device_key(uuid: str) -> str:
    """Return the key of a device's history: its UUID, unless that looks like another kind of key."""
    return f"device:{uuid}" if ":" in uuid else uuid


def group_key(kind: str, name: str) -> str:
    """Return the key of the history of a "node", "user" or "project"."""
    return f"{kind}:{name}"


def jobs_key(sequence: int) -> str:
    """Return the key of the history of the job with this number. Jobs with nearby numbers share it."""
    return f"jobs:{sequence // JOBS_A_BLOCK}"


def new_readings(
    view: View, samples: Mapping[str, DeviceSample], fresh: Mapping[str, float], interval_s: float
) -> NewReadings:
    """Return the readings of the samples in `fresh`, which has by UUID the seconds that each covers.

    `samples` are the newest of all devices, which are sampled every `interval_s`.
    """
    found = NewReadings()
    values = {uuid: readings_of(samples[uuid]) for uuid in fresh}
    for uuid, covered_s in fresh.items():
        found.named.append((device_key(uuid), DeviceReadings(samples[uuid].taken_at, covered_s, values[uuid])))
    _add_nodes(found, view, samples, fresh)
    settled = max((samples[uuid].taken_at for uuid in fresh), default=0.0) - _SETTLED_INTERVALS * interval_s
    users: dict[str, _Holdings] = defaultdict(_Holdings)
    projects: dict[str, _Holdings] = defaultdict(_Holdings)
    rows: dict[str, list[JobSample]] = defaultdict(list)
    for row in job_samples(view, samples):
        rows[row.allocation.id].append(row)
    for allocation in view.allocations.values():
        job, held = view.jobs.get(allocation.job_id), len(set(allocation.placement.uuids))
        if job is None or not held:
            continue
        known = rows.get(allocation.id, [])
        parts = [_part_of(row, fresh, values) for row in known]
        _add_job(found, known, parts, held)
        counted = held if allocation.created_at <= settled else len(parts)
        for holdings in (users[job.spec.user], projects[job.spec.project]):
            holdings.parts += parts
            holdings.devices += counted
    for kind, all_holdings in (("user", users), ("project", projects)):
        for name, holdings in all_holdings.items():
            key = group_key(kind, name)
            found.named += [(key, reading) for reading in _merged(holdings.parts, holdings.devices)]
    return found


def _add_nodes(found: NewReadings, view: View, samples: Mapping[str, DeviceSample], fresh: Mapping[str, float]) -> None:
    """Add the readings of each node, which are those of its devices. A slice's are in those of its parent device."""
    for name, node in view.nodes.items():
        uuids = [device.uuid for device in node.devices if device.parent_uuid is None]
        if any(uuid in fresh for uuid in uuids):
            known = [samples[uuid] for uuid in uuids if uuid in samples and samples[uuid].fault is None]
            parts = [_Part(sample.taken_at, fresh.get(sample.uuid), readings_of(sample)) for sample in known]
            found.named += [(group_key("node", name), reading) for reading in _merged(parts, len(uuids))]


def _part_of(row: JobSample, fresh: Mapping[str, float], values: Mapping[str, Values]) -> _Part:
    sample = row.sample
    covered_s = fresh.get(sample.uuid)
    if covered_s is not None:
        covered_s = min(covered_s, sample.taken_at - row.allocation.created_at)
    own = values.get(sample.uuid) if row.alone else None
    return _Part(sample.taken_at, covered_s, readings_of(sample) if own is None else own)


def _add_job(found: NewReadings, rows: Sequence[JobSample], parts: Sequence[_Part], held: int) -> None:
    for row, part in zip(rows, parts, strict=True):
        if part.covered_s is not None:
            place = JobPart(row.job.sequence, row.allocation.attempt, min(row.number, TOGETHER - 1))
            found.jobs.append((place, DeviceReadings(part.at, part.covered_s, part.values)))
    if held > 1 and len(parts) == held and parts[0].covered_s is not None:
        place = JobPart(rows[0].job.sequence, rows[0].allocation.attempt, TOGETHER)
        found.jobs.append((place, DeviceReadings(parts[0].at, parts[0].covered_s, _sums(parts))))


def _merged(parts: Sequence[_Part], devices: int) -> Iterator[DeviceReadings]:
    """Yield the new readings of a number of devices, of which `parts` are known. Sums come with the first device's."""
    if devices == 1:
        for part in parts:
            if part.covered_s is not None:
                yield DeviceReadings(part.at, part.covered_s, part.values)
        return
    for part in parts:
        if part.covered_s is not None:
            yield DeviceReadings(part.at, part.covered_s / devices, _without_sums(part.values))
    if parts and len(parts) == devices and parts[0].covered_s is not None:
        yield DeviceReadings(parts[0].at, parts[0].covered_s, _sums(parts))


def _without_sums(values: Values) -> Values:
    return tuple([None if summed else value for value, summed in zip(values, _IS_SUMMED, strict=True)])


def _sums(parts: Iterable[_Part]) -> Values:
    """The sum of each summed series, None if a part of it is not known."""
    columns = zip(*(part.values for part in parts), strict=True)
    return tuple([_sum(column) if summed else None for column, summed in zip(columns, _IS_SUMMED, strict=True)])


def _sum(column: Sequence[float | None]) -> float | None:
    return None if None in column else sum(value for value in column if value is not None)
