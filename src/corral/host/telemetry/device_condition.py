"""Converts samples to conditions: whether a device may be given to jobs. Pure: the caller passes the time."""

from collections.abc import Collection
from dataclasses import dataclass

from corral.config import Settings
from corral.core.model.devices.device import (
    Device,
    DeviceCondition,
    DeviceProcess,
    DeviceSample,
    HoldingPod,
    LastUse,
)
from corral.core.model.devices.health import Verdict

_UTILIZATION_STEP_PCT = 10
_MEMORY_STEP = 0.02
"""Smaller changes of utilisation, and of free memory as a part of the whole, are not reported."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A device's condition, and the time (monotonic seconds) since which foreign processes have held it without
    using it.
    """

    condition: DeviceCondition
    unused_since_s: float | None = None


def judge(
    device: Device,
    sample: DeviceSample,
    before: Standing | None,
    jobs: Collection[str],
    settings: Settings,
    *,
    now_s: float,
) -> Standing:
    """Return the standing of `device` by `sample`, whose signs are known. `jobs` are the ids of the jobs that hold it,
    `now_s` is monotonic seconds.

    A process is foreign unless it belongs to one of `jobs`. A job that uses a device without holding it is foreign too.
    """
    was = before.condition if before is not None else None
    unreadable = _unreadable(device, sample)
    if unreadable is not None:
        since = was.strangers_since if was is not None else None
        ill_since = was.ill_since if was is not None and was.unreadable is not None else sample.taken_at
        return Standing(DeviceCondition(device.uuid, unreadable=unreadable, ill_since=ill_since, strangers_since=since))
    strangers = tuple(process for process in sample.processes or () if process.job_id not in jobs)
    unused_since_s = _unused_since(sample, strangers, before, now_s)
    # A pod keeps its devices, even if it does not use them.
    stale = sample.pod is None and unused_since_s is not None and now_s - unused_since_s >= settings.stale_after_s
    grave = tuple(sign for sign in sample.signs if sign.lasts and sign.verdict is Verdict.QUARANTINE)
    unhealthy = sample.illness or next((sign.detail for sign in grave), None)
    ill_since = was.ill_since if was is not None and was.unhealthy is not None else sample.taken_at
    condition = DeviceCondition(
        uuid=device.uuid,
        unhealthy=unhealthy,
        ill_by=() if sample.illness else tuple(sorted({sign.kind for sign in grave})),
        ill_since=None if unhealthy is None else ill_since,
        strangers=strangers,
        strangers_since=_strangers_since(strangers, sample.pod, was, sample.taken_at),
        stale=stale,
        lendable=sample.pod is None and (settings.accept_in_use or (settings.lend_stale and stale)),
        # Corral cannot choose which of a cluster's devices a pod gets, so the readings of one device decide nothing
        # about it. Those of all devices of a node rank the node.
        memory_free_mib=None if sample.counted else sample.memory_free_mib,
        utilization_pct=None if sample.counted else sample.utilization_pct,
        pod=sample.pod,
        use=_use_of(sample) if sample.counted else None,
        parts=sample.parts,
    )
    return Standing(condition, unused_since_s)


def is_news(before: DeviceCondition | None, after: DeviceCondition, memory_mib: int | None) -> bool:
    """Return whether `after` differs enough from `before` to be reported, for a device of `memory_mib`."""
    if before is None or _gist(before) != _gist(after):
        return True
    step_mib = round(_MEMORY_STEP * (memory_mib or 0))
    if _uses_differ(before.use, after.use):
        return True
    return _differ(before.utilization_pct, after.utilization_pct, _UTILIZATION_STEP_PCT) or _differ(
        before.memory_free_mib, after.memory_free_mib, step_mib
    )


def _use_of(sample: DeviceSample) -> LastUse | None:
    """Return the use of the device; None if its source does not give all of it."""
    if sample.utilization_pct is None or sample.memory_used_mib is None or not sample.memory_total_mib:
        return None
    return LastUse(sample.utilization_pct, 100.0 * sample.memory_used_mib / sample.memory_total_mib)


def _uses_differ(before: LastUse | None, after: LastUse | None) -> bool:
    if before is None or after is None:
        return before is not after
    return any(abs(new - old) > _UTILIZATION_STEP_PCT for old, new in zip(before, after, strict=True))


def _unreadable(device: Device, sample: DeviceSample) -> str | None:
    """Return why it is unknown whether the device is free, None if it is known. Power and temperature do not matter
    for that.
    """
    if sample.fault is not None or sample.counted or not sample.metered:
        return sample.fault
    if sample.processes is None:
        return "the driver does not list its processes, so who uses it is not known"
    if sample.memory_free_mib is None or sample.memory_total_mib is None:
        return "its memory use cannot be read"
    if sample.utilization_pct is None and not device.mig_enabled:
        return "its utilisation cannot be read"
    return None


def _strangers_since(
    strangers: tuple[DeviceProcess, ...], pod: HoldingPod | None, was: DeviceCondition | None, taken_at: float
) -> float | None:
    """Return the time since which foreign processes hold the device, None if none does.

    At the first sample this is the start of the oldest one, later the time of the sample that found
    them. For a pod it is the creation of the pod, if that is known.
    """
    if pod is not None:
        known_s = taken_at if pod.created_at is None else min(pod.created_at, taken_at)
        return known_s if was is None or was.pod != pod or was.strangers_since is None else was.strangers_since
    if not strangers:
        return None
    if was is None:
        return min((process.started_at for process in strangers if process.started_at is not None), default=taken_at)
    others_now = was.strangers and not {p.pid for p in was.strangers} & {p.pid for p in strangers}
    return taken_at if was.strangers_since is None or others_now else was.strangers_since


def _unused_since(
    sample: DeviceSample, strangers: tuple[DeviceProcess, ...], before: Standing | None, now_s: float
) -> float | None:
    if not strangers or sample.utilization_pct != 0:
        return None
    if before is None or before.unused_since_s is None:
        return now_s
    newcomers = {process.pid for process in strangers} - {process.pid for process in before.condition.strangers}
    return now_s if newcomers else before.unused_since_s


def _gist(condition: DeviceCondition) -> tuple[object, ...]:
    return (
        condition.unreadable,
        condition.unhealthy is None,
        condition.ill_by,
        condition.strangers_since,
        condition.stale,
        condition.lendable,
        condition.pod,
        condition.parts,
        tuple((process.pid, process.started_at, process.job_id, process.runs_in) for process in condition.strangers),
    )


def _differ(before: int | None, after: int | None, step: int) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > step
