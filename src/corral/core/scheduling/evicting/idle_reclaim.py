"""Finds GPUs that are allocated and unused: the holder is told, and while jobs wait the GPUs are released."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from corral.core.model.devices.device import DeviceSample
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.core.model.placing.fit import could_use
from corral.core.model.placing.state import node_state
from corral.core.model.units import count_of, format_duration
from corral.core.model.view import View
from corral.core.scheduling.queueing.admission import ineligible


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """The holder of an allocation unused for `after_s` is warned while others wait; `grace_s` later it is released.

    The holder is told after `tell_after_s`, once, whoever waits. None is never.
    """

    after_s: float | None
    grace_s: float = 300.0
    tell_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Idle:
    """The time since when an allocation is unused, and the time of the warning to its holder; Unix seconds.

    `told` says whether its holder knows that it is unused.
    """

    since: float
    warned_at: float | None = None
    told: bool = False


@dataclass(frozen=True, slots=True)
class IdleVerdict:
    """A message to the holder of an idle allocation.

    Attributes:
        for_job_id: the waiting job.
        release: whether it is released.
        unused: its devices, if this is only a notice.
        unused_s: for how long it has not used them, if this is only a notice.
    """

    job_id: str
    message: str
    for_job_id: str | None = None
    release: bool = False
    unused: tuple[str, ...] = ()
    unused_s: float = 0.0


def judge_idle(
    view: View, samples: Mapping[str, DeviceSample], before: Mapping[str, Idle], policy: IdlePolicy, now: float
) -> tuple[list[IdleVerdict], dict[str, Idle]]:
    """The verdicts for now, and the idle times to pass to the next call, by allocation id.

    A device counts as unused while its sampled utilisation is 0. A device that cannot be read counts as in use.
    A shared device counts as in use if any job uses it. Adopted processes are never ended.
    """
    verdicts: list[IdleVerdict] = []
    idle: dict[str, Idle] = {}
    for allocation_id, allocation in sorted(view.allocations.items()):
        job = view.jobs.get(allocation.job_id)
        if job is None or not _may_end(job) or not _unused(allocation, samples):
            continue
        state = before.get(allocation_id, Idle(now))
        if not state.told and policy.tell_after_s is not None and now - state.since >= policy.tell_after_s:
            unused_s = now - state.since
            notice = _notice(allocation, unused_s)
            verdicts.append(IdleVerdict(job.id, notice, unused=allocation.placement.uuids, unused_s=unused_s))
            state = replace(state, told=True)
        idle[allocation_id] = state
        if policy.after_s is None or now - state.since < policy.after_s:
            continue
        waiting = _who_waits(view, allocation, now)
        if waiting is None:
            idle[allocation_id] = replace(state, warned_at=None)
        elif state.warned_at is None:
            verdicts.append(IdleVerdict(job.id, _warning(allocation, waiting, now - state.since, policy), waiting.id))
            idle[allocation_id] = replace(state, warned_at=now)
        elif now - state.warned_at >= policy.grace_s:
            gpus = count_of(len(allocation.placement.grants), "GPU")
            unused = format_duration(now - state.since)
            message = f"{gpus} unused for {unused} while job {waiting.id} waits: released"
            verdicts.append(IdleVerdict(job.id, message, waiting.id, release=True))
    return verdicts, idle


def _may_end(job: Job) -> bool:
    return job.phase is Phase.RUNNING and job.spec.kind is not JobKind.ADOPT


def _unused(allocation: Allocation, samples: Mapping[str, DeviceSample]) -> bool:
    uuids = allocation.placement.uuids
    return bool(uuids) and all(uuid in samples and samples[uuid].utilization_pct == 0 for uuid in uuids)


def _who_waits(view: View, allocation: Allocation, now: float) -> Job | None:
    """The first waiting job that could use one of these devices; None if there is none."""
    places = {
        device.uuid: (device, slot)
        for name in dict.fromkeys(member.node for member in allocation.placement.members)
        if name in view.nodes
        for device, slot in zip(view.nodes[name].devices, node_state(view, name).slots, strict=True)
    }
    waiting = (
        job
        for job in view.jobs.values()
        if job.phase is Phase.PENDING and job.spec.request.devices and ineligible(job, now) is None
    )
    for job in sorted(waiting, key=lambda one: (one.spec.priority, one.sequence)):
        request = job.spec.request
        for uuid in allocation.placement.uuids:
            device, slot = places.get(uuid, (None, None))
            if device is not None and slot is not None and could_use(request, slot, usable=request.may_use(device)):
                return job
    return None


def _notice(allocation: Allocation, unused_s: float) -> str:
    gpus = count_of(len(allocation.placement.grants), "GPU")
    return f"{gpus} unused for {format_duration(unused_s)}: does the program use them? This changes nothing by itself"


def _warning(allocation: Allocation, waiting: Job, unused_s: float, policy: IdlePolicy) -> str:
    gpus = count_of(len(allocation.placement.grants), "GPU")
    return (
        f"{gpus} unused for {format_duration(unused_s)} while job {waiting.id} waits: use them within "
        f"{format_duration(policy.grace_s)}, or they are released"
    )
