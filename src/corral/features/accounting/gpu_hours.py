"""GPU-hours by user, project or queue, split by how limits were enforced. Pure: sums of the ledger in, rows out."""

from collections import defaultdict
from collections.abc import Iterable

from corral.core.model.devices.means import Level
from corral.core.model.runs.run_history import HOUR_S, AllocatedTime, UsageBy
from corral.features.accounting.answers import UsageRow

TOTAL = "total"


def usage(times: Iterable[AllocatedTime], by: UsageBy) -> tuple[UsageRow, ...]:
    """Return a row for each user, project or queue, the largest use first.

    A GPU-hour is a whole device for one hour, or half a device for two. Hours of MIG slices are counted separately, by
    profile, because a profile's part of a device depends on the model.
    """
    named: dict[str, list[AllocatedTime]] = defaultdict(list)
    for time in times:
        named[_name(time, by)].append(time)
    rows = (_row(name, times) for name, times in named.items())
    return tuple(sorted(rows, key=lambda row: (-row.gpu_hours, row.name)))


def total(times: Iterable[AllocatedTime]) -> UsageRow:
    """The row for the sum over all."""
    return _row(TOTAL, list(times))


def _name(time: AllocatedTime, by: UsageBy) -> str:
    return {UsageBy.USER: time.user, UsageBy.PROJECT: time.project, UsageBy.QUEUE: time.queue}[by]


def _row(name: str, times: list[AllocatedTime]) -> UsageRow:
    devices = [time for time in times if time.mig_profile is None]
    slices: dict[str, float] = {}
    for time in sorted(times, key=lambda time: time.mig_profile or ""):
        if time.mig_profile is not None:
            slices[time.mig_profile] = slices.get(time.mig_profile, 0.0) + time.gpu_s / HOUR_S
    return UsageRow(
        name=name,
        gpu_hours=_hours(devices),
        compute_enforced_hours=_hours(time for time in devices if _compute(time) is Level.ENFORCED),
        compute_advisory_hours=_hours(time for time in devices if _compute(time) in (Level.ADVISORY, Level.HOOK)),
        memory_enforced_hours=_hours(time for time in devices if _memory(time) is Level.ENFORCED),
        memory_guarded_hours=_hours(time for time in devices if _memory(time) in (Level.GUARDED, Level.HOOK)),
        memory_advisory_hours=_hours(time for time in devices if _memory(time) is Level.ADVISORY),
        unrecorded_hours=_hours(time for time in devices if time.enforcement is None),
        slice_hours=slices,
        lost_hours=sum(time.lost_gpu_s for time in devices) / HOUR_S,
        allocations=sum(time.allocations for time in times),
    )


def _compute(time: AllocatedTime) -> Level | None:
    return None if time.enforcement is None else time.enforcement.compute


def _memory(time: AllocatedTime) -> Level | None:
    return None if time.enforcement is None else time.enforcement.memory


def _hours(times: Iterable[AllocatedTime]) -> float:
    return sum(time.gpu_s for time in times) / HOUR_S
