"""The memory guard: it limits a job on a shared device to its memory, first by a warning, then by a stop.

Pure: samples in, verdicts out. Times are the caller's monotonic seconds, so that a change of the clock stops no job.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from corral.core.model.devices.device import DeviceSample
from corral.core.model.units import format_memory


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """The seconds for which a job may exceed its grant, and the MiB of the device that must stay free meanwhile."""

    grace_s: float = 10.0
    reserve_mib: int = 512


@dataclass(frozen=True, slots=True)
class Bound:
    """The memory that a job was granted on a device.

    `allocation_id` distinguishes attempts of a job; `name` is shown for the device (None: its UUID).
    """

    job_id: str
    uuid: str
    limit_mib: int
    allocation_id: str = ""
    name: str | None = None

    @property
    def device(self) -> str:
        """The name of the device in a sentence."""
        return self.name or self.uuid


class Action(StrEnum):
    """The action that a verdict asks for."""

    WARN = "warn"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Overuse:
    """The decision on a job that exceeds its grant; `why` is for its record, `message` for its log."""

    action: Action
    job_id: str
    uuid: str
    used_mib: int
    limit_mib: int
    why: str
    message: str


@dataclass(frozen=True, slots=True)
class Watched:
    """A job on a device at the last sample; `over_since_s` is monotonic, None while the job is within its grant."""

    used_mib: int
    taken_at: float
    over_since_s: float | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class GuardState:
    """The state kept between rounds, by (job id, device UUID, allocation id)."""

    watched: Mapping[tuple[str, str, str], Watched] = field(default_factory=lambda: MappingProxyType({}))


def judge(
    bounds: Iterable[Bound],
    samples: Mapping[str, DeviceSample],
    state: GuardState,
    now_s: float,
    policy: GuardPolicy,
) -> tuple[tuple[Overuse, ...], GuardState]:
    """The verdicts on a round of samples (by device UUID), in order of job and device, and the next state.

    A job is judged by its own processes only. The first sample above its grant causes a warning. A later one stops the
    job when the grace period is over, or when the device is about to run out of memory. If the job grows so fast that
    the device would run out before the next sample, it is stopped at once. A sample that is old or could not be read
    changes nothing.
    """
    verdicts: list[Overuse] = []
    watched: dict[tuple[str, str, str], Watched] = {}
    for bound in sorted(bounds, key=_key):
        key = _key(bound)
        before = state.watched.get(key)
        sample = samples.get(bound.uuid)
        used_mib = None if sample is None else _used_mib(sample, bound)
        if sample is None or used_mib is None or (before is not None and before.taken_at == sample.taken_at):
            if before is not None:
                watched[key] = before
            continue
        watched[key], verdict = _judge_one(bound, sample, used_mib, before, now_s=now_s, policy=policy)
        if verdict is not None:
            verdicts.append(verdict)
    return tuple(verdicts), GuardState(MappingProxyType(watched))


def _key(bound: Bound) -> tuple[str, str, str]:
    return bound.job_id, bound.uuid, bound.allocation_id


def _judge_one(
    bound: Bound, sample: DeviceSample, used_mib: int, before: Watched | None, *, now_s: float, policy: GuardPolicy
) -> tuple[Watched, Overuse | None]:
    if used_mib <= bound.limit_mib:
        return Watched(used_mib, sample.taken_at), None
    since_s = None if before is None else before.over_since_s
    over = Watched(used_mib, sample.taken_at, now_s if since_s is None else since_s)
    if before is not None and before.stopped:
        return replace(over, stopped=True), None
    growth_mib = 0 if before is None else max(0, used_mib - before.used_mib)
    must_stay_free_mib = 0 if since_s is None else policy.reserve_mib
    over_s = 0.0 if since_s is None else now_s - since_s
    if sample.memory_free_mib is not None and sample.memory_free_mib - growth_mib < must_stay_free_mib:
        left = f", and the device had {format_memory(sample.memory_free_mib)} left"
        return replace(over, stopped=True), _stop(bound, used_mib, over_s, left)
    if since_s is None:
        return over, _warn(bound, used_mib, policy)
    if over_s >= policy.grace_s:
        return replace(over, stopped=True), _stop(bound, used_mib, over_s)
    return over, None


def _used_mib(sample: DeviceSample, bound: Bound) -> int | None:
    """The MiB that the job's processes use; None when not known. A partial sum counts if it exceeds the grant."""
    if sample.processes is None:
        return None
    own = [process.memory_mib for process in sample.processes if process.job_id == bound.job_id]
    known_mib = sum(memory for memory in own if memory is not None)
    return known_mib if None not in own or known_mib > bound.limit_mib else None


def _warn(bound: Bound, used_mib: int, policy: GuardPolicy) -> Overuse:
    used, granted = format_memory(used_mib), format_memory(bound.limit_mib)
    excess = format_memory(used_mib - bound.limit_mib)
    why = f"uses {used} of {bound.device} and was granted {granted}, {excess} too much"
    until = f"it is stopped unless it is back within {policy.grace_s:g} s, sooner if the device runs out"
    message = f"job {bound.job_id} {why}; {until}"
    return Overuse(Action.WARN, bound.job_id, bound.uuid, used_mib, bound.limit_mib, why, message)


def _stop(bound: Bound, used_mib: int, over_s: float, also: str = "") -> Overuse:
    used, granted = format_memory(used_mib), format_memory(bound.limit_mib)
    lasted = f" for {over_s:.0f} s" if over_s else ""
    why = (
        f"it held {used} of {bound.device}{lasted}, {format_memory(used_mib - bound.limit_mib)} more than its grant "
        f"of {granted}{also}; ask for more next time: --gpu-mem {used_mib}M"
    )
    message = f"job {bound.job_id} is stopped: {why}"
    return Overuse(Action.STOP, bound.job_id, bound.uuid, used_mib, bound.limit_mib, why, message)
