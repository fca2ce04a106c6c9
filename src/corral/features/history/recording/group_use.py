"""Adds up the use of devices by the pool, by node and by means of sharing, and by users and other holders.

The sums are by the minute and by the hour, for key figures over any stretch of time. Lost sums count as not measured.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from corral.clock import Clock
from corral.core.model.devices.device import Device, DeviceSample
from corral.core.model.devices.group_use import POOL, GroupUse, KpiBy, added_use
from corral.core.model.devices.means import Means
from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_samples import job_samples
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View
from corral.features.history.recording.group_use_table import STEPS_S, GroupUseTable, StoredUse
from corral.features.history.recording.series import LEAST_USED_PCT, covered_s
from corral.vendors.registry import application_errors

WRITE_INTERVAL_S = 60.0

_MOST_WAITING = 50_000
"""The most sums that wait while the disk is full; later ones are dropped."""

Group = tuple[str, str]
"""A kind, `POOL` or one of `KpiBy`, and a name."""


class _Place(NamedTuple):
    """The groups of a device, and its part of a whole device."""

    device: Device
    groups: tuple[Group, Group, Group]
    part: float


class _Health(NamedTuple):
    """The last known errors of a device."""

    at_fault: bool
    ecc_errors: int | None
    xid: int | None


class GroupUseRecorder:
    """Takes each new sample (`look`) and adds to the table every `WRITE_INTERVAL_S`.

    `look` and `close` are called on one thread; questions come from any thread.
    """

    def __init__(
        self,
        table: GroupUseTable,
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
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._waiting: dict[tuple[int, Group], GroupUse] = {}
        self._last_at: dict[str, float] = {}
        self._health: dict[str, _Health] = {}
        self._write_at = clock.monotonic() + WRITE_INTERVAL_S

    def look(self) -> None:
        """Take new samples, and write when it is time."""
        samples = self._latest()
        fresh, failed = self._news(samples)
        if fresh or failed:
            sums = group_use(self._view(), samples, fresh, failed)
            minute = int(max((samples[uuid].taken_at for uuid in (*fresh, *failed)), default=0.0)) // 60 * 60
            with self._lock:
                for group, use in sums.items():
                    self._add((minute, group), use)
        now = self._clock.monotonic()
        if now >= self._write_at:
            self._write_at = now + WRITE_INTERVAL_S
            self.write()

    def write(self) -> None:
        """Write the waiting sums. If that fails they stay, and the history reports that nothing is written."""
        try:
            with self._lock:
                self._table.add(
                    StoredUse(step_s, minute // step_s * step_s, kind, name, use)
                    for (minute, (kind, name)), use in self._waiting.items()
                    for step_s in STEPS_S
                )
                self._waiting.clear()
            self._table.forget(self._clock.now())
        except BackendFailed:
            return

    def close(self) -> None:
        """Write the waiting sums."""
        self.write()

    def of_kind(self, kind: str, first: float, last: float) -> dict[str, GroupUse]:
        """Return the sums of the groups of a kind from `first` up to `last`, by name. Raises BackendFailed.

        The precision is a minute, or an hour over a longer time. Steps that began before `last` count, as does the step
        with `first`.
        """
        with self._lock:
            found = self._table.sums(kind, first, last, self._clock.now())
            for (minute, (of_kind, name)), use in self._waiting.items():
                if of_kind == kind and first // 60 * 60 <= minute < last:
                    found[name] = added_use(found.get(name, GroupUse()), use)
        return found

    def _add(self, key: tuple[int, Group], use: GroupUse) -> None:
        before = self._waiting.get(key)
        if before is not None:
            self._waiting[key] = added_use(before, use)
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting[key] = use

    def _news(self, samples: Mapping[str, DeviceSample]) -> tuple[dict[str, float], dict[str, int]]:
        """Return the devices with a new sample and the seconds that it covers, and the number of failures by device."""
        fresh: dict[str, float] = {}
        failed: dict[str, int] = {}
        for uuid, sample in samples.items():
            before = self._last_at.get(uuid)
            if sample.taken_at == before:
                continue
            self._last_at[uuid] = sample.taken_at
            known = self._health.get(uuid)
            self._health[uuid] = _health(known, sample)
            if known is not None and (failures := failures_since(known, sample)):
                failed[uuid] = failures
            if sample.fault is None:
                fresh[uuid] = covered_s(sample.taken_at, before, self._interval_s)
        return fresh, failed


def failures_since(before: _Health, sample: DeviceSample) -> int:
    """How many failures a sample shows that are new: no longer readable, memory errors, an error of its driver."""
    if sample.fault is not None:
        return int(not before.at_fault)
    ecc, xid = sample.ecc_errors, sample.xid
    more_ecc = ecc is not None and before.ecc_errors is not None and ecc > before.ecc_errors
    new_xid = xid is not None and before.xid is not None and xid != before.xid
    return int(more_ecc) + int(new_xid and xid != 0 and xid not in application_errors())


def _health(before: _Health | None, sample: DeviceSample) -> _Health:
    if sample.fault is None:
        return _Health(False, sample.ecc_errors, sample.xid)
    return _Health(True, None, None) if before is None else before._replace(at_fault=True)


def group_use(
    view: View, samples: Mapping[str, DeviceSample], fresh: Mapping[str, float], failed: Mapping[str, int]
) -> dict[Group, GroupUse]:
    """Return the sums of new samples for each group.

    `fresh` has by UUID the seconds that a sample covers, `failed` the number of failures in it. A slice counts within
    its parent device, except for the jobs on it.
    """
    places = dict(_places(view))
    parts: dict[Group, list[GroupUse]] = defaultdict(list)
    for uuid, covered in fresh.items():
        place = places.get(uuid)
        if place is not None and place.device.parent_uuid is None:
            use = _use_of(samples[uuid], covered, 1.0)
            for group in place.groups:
                parts[group].append(use)
    for row in job_samples(view, samples):
        uuid = row.sample.uuid
        place = places.get(uuid)
        if place is None or uuid not in fresh:
            continue
        covered = min(fresh[uuid], row.sample.taken_at - row.allocation.created_at)
        use = _held_of(row.sample, covered * place.part, row.share_milli / MILLI_PER_DEVICE)
        for group in _groups_of(row.job):
            parts[group].append(use)
        granted = GroupUse(granted_s=use.granted_s, used_s=use.used_s)
        for group in place.groups:
            parts[group].append(granted)
    for uuid, failures in failed.items():
        place = places.get(uuid)
        for group in (*_holders(view, uuid), *(() if place is None else place.groups)):
            parts[group].append(GroupUse(failures=failures))
    return {group: GroupUse._make(map(sum, zip(*uses, strict=True))) for group, uses in parts.items()}


def _places(view: View) -> Iterator[tuple[str, _Place]]:
    for name, node in view.nodes.items():
        for device in node.devices:
            groups = ((POOL, ""), (KpiBy.NODE.value, name), (KpiBy.MEANS.value, _means_of(view, device).value))
            part = 1.0 if device.slice_milli is None else device.slice_milli / MILLI_PER_DEVICE
            yield device.uuid, _Place(device, groups, part)


def _means_of(view: View, device: Device) -> Means:
    """Return how a device is shared now. A device that one job has whole is exclusive, whatever its setting."""
    allocations = [view.allocations[one] for one in view.holders.get(device.uuid, ()) if one in view.allocations]
    grants = [grant for one in allocations for grant in one.placement.grants if grant.uuid == device.uuid]
    return device.held_by(max((grant.share_milli for grant in grants), default=0))


def _groups_of(job: Job) -> tuple[Group, Group, Group]:
    spec = job.spec
    return (KpiBy.USER.value, spec.user), (KpiBy.PROJECT.value, spec.project), (KpiBy.QUEUE.value, spec.queue)


def _holders(view: View, uuid: str) -> set[Group]:
    allocations = [view.allocations[one] for one in view.holders.get(uuid, ()) if one in view.allocations]
    jobs = [view.jobs[one.job_id] for one in allocations if one.job_id in view.jobs]
    return {group for job in jobs for group in _groups_of(job)}


def _use_of(sample: DeviceSample, covered: float, share: float) -> GroupUse:
    """A reading of a device, or of the share of it that a job has: percentages are of the share, and 100 at most."""
    weight = covered * share
    used, total = sample.memory_used_mib, sample.memory_total_mib
    memory_pct = None if used is None or not total else min(100 * used / total / share, 100.0)
    utilization_pct = None if sample.utilization_pct is None else min(sample.utilization_pct / share, 100.0)
    watts = None if sample.power_mw is None else sample.power_mw / 1000
    pairs = [
        (0.0, 0.0) if value is None else (weight, value * weight)
        for value in (utilization_pct, memory_pct, sample.temperature_c, watts)
    ]
    return GroupUse(*(value for pair in pairs for value in pair))


def _held_of(sample: DeviceSample, covered: float, share: float) -> GroupUse:
    use, utilization = _use_of(sample, covered, share), sample.utilization_pct
    if utilization is None:
        return use
    return use._replace(granted_s=covered * share, used_s=covered * share if utilization >= LEAST_USED_PCT else 0.0)
