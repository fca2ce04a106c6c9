"""Devices that fall sick: what becomes of the jobs that run there, and of jobs that met an error of their own making.

A fault of the site costs a job no retry. A job under which several devices fell sick is held, so that no job can make
the devices of a site sick one after another.
"""

from collections.abc import Iterator
from dataclasses import replace

from corral.core.lifecycle import user_faults
from corral.core.lifecycle.input import spent
from corral.core.lifecycle.phase_changes import requeued
from corral.core.lifecycle.stopping import evict, may_stop, stop
from corral.core.model.devices.health import DeviceHealth, Health, HealthSign
from corral.core.model.fact import Fact, JobChanged, JobRequeued, JobUpdated, ServerPart
from corral.core.model.jobs.checkpoints import has_checkpoints
from corral.core.model.jobs.job import Job, JobKind, JobSpec
from corral.core.model.jobs.job_patch import JobPatch, patched
from corral.core.model.jobs.job_update import noted
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.site_faults import Avoided, OnFault, avoiding, not_aged, too_many
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Evict
from corral.core.model.units import count_of
from corral.core.model.view import View

BY = ServerPart.HEALTH_WATCH

JUST_BEFORE_S = 30.0
"""A job that failed on a device this long before the device fell sick failed because of the device."""


def on_fault(view: View, spec: JobSpec) -> OnFault:
    """Return what the job wants when one of its devices falls sick: by itself, by its queue, or by default."""
    queue = view.queues.get(spec.queue)
    said = spec.on_fault or (None if queue is None else queue.on_fault)
    if said is not None:
        return said
    return OnFault.REQUEUE if spec.retries or has_checkpoints(spec) else OnFault.LEAVE


def device_fell_sick(view: View, uuid: str, health: DeviceHealth, at: float) -> list[Fact]:
    """Return the facts about the jobs of a device that is quarantined now, or is lost.

    Each job keeps off the device from now on. It is stopped and requeued, unless it is to be left. Reservations and
    adopted processes always stay. A waiting job that has just failed there is forgiven. Waiting jobs to which the
    device was promised are told that the promise is off.
    """
    reason = _fell_sick(view, uuid, health)
    facts: list[Fact] = []
    for job in jobs_on(view, uuid):
        if job.spec.kind is JobKind.RUN:
            avoided = _with(view, job, uuid, at)
            facts += [keep_off(job, avoided, by=BY, at=at), *_moved(view, job, reason, at)]
            if hold := _hold(job, avoided, reason):
                facts.append(JobChanged(job.id, hold, at=at, by=BY))
    for job in view.jobs.values():
        if job.phase is Phase.PENDING and failed_there(job, uuid, at):
            facts += forgiven(view, job, uuid, health, at)
    counted = _counted_for_user(view.advance(facts), uuid, reason, at)
    return [*facts, *_promises_broken(view, uuid, reason, at), *counted]


def failed_there(job: Job, uuid: str, at: float) -> bool:
    """Return whether the last attempt of a job that runs no more failed on a device, just before its fault was seen.

    A program may meet the fault first: it ends at once, and devices are read once a second.
    """
    runs_no_more = job.phase in (Phase.PENDING, Phase.FAILED, Phase.LOST)
    if not runs_no_more or job.ended_at is None or uuid not in job.devices:
        return False
    return job.exit_code != 0 and at - JUST_BEFORE_S <= job.ended_at <= at


def forgiven(view: View, job: Job, uuid: str, health: DeviceHealth, at: float) -> list[Fact]:
    """Return the facts by which a job is tried again that failed because of a device; none if it may not be.

    That uses up no retry. The job waits again with a pause, or has ended. Of several devices that fell sick under one
    attempt, only the first counts as a fault.
    """
    if on_fault(view, job.spec) is OnFault.LEAVE or job.site_faults >= view.limits.site_retries or spent(job):
        return []
    avoided = _with(view, job, uuid, at)
    hold = _hold(job, avoided, _fell_sick(view, uuid, health))
    known = any(one in job.devices and when >= (job.ended_at or 0.0) for one, when in job.spec.request.avoided)
    changes: JobPatch = {"site_faults": job.site_faults + (not known), "eligible_at": None, **hold}
    if job.phase is Phase.PENDING:
        return [keep_off(job, avoided, by=BY, at=at), JobChanged(job.id, changes, at=at, by=BY)]
    request = replace(job.spec.request, avoided=avoided)
    again = patched(requeued(job), changes)
    return [JobRequeued(replace(again, spec=replace(job.spec, request=request)), at=at, by=BY)]


def _counted_for_user(view: View, uuid: str, reason: str, at: float) -> list[Fact]:
    """Count the fault for the user of the jobs on the device; for nobody if they are of several users, or of none."""
    places = _with_slices(view, _whole(view, uuid))
    ids = [allocation_id for place in places for allocation_id in view.holders.get(place, ())]
    allocations = [view.allocations[allocation_id] for allocation_id in ids]
    users = {one.user for one in allocations}
    nodes = {m.node for one in allocations for m in one.placement.members if any(g.uuid in places for g in m.grants)}
    return user_faults.counted(view, users.pop(), min(nodes), reason, at) if len(users) == 1 else []


def _with(view: View, job: Job, uuid: str, at: float) -> Avoided:
    """Return the devices that a job keeps off from now on, with this one, or with the device that it is cut from."""
    return avoiding(job.spec.request.avoided, _whole(view, uuid), at)


def _whole(view: View, uuid: str) -> str:
    """Return the device from which a slice is cut; a device that is no slice is itself."""
    found = view.device(uuid)
    return uuid if found is None else found[1].parent_uuid or uuid


def _with_slices(view: View, uuid: str) -> tuple[str, ...]:
    """Return a device and the slices of it."""
    found = view.device(uuid)
    slices = () if found is None else tuple(one.uuid for one in found[0].devices if one.parent_uuid == uuid)
    return (uuid, *slices)


def _hold(job: Job, avoided: Avoided, reason: str) -> JobPatch:
    if job.held_because is not None or not too_many(avoided):
        return {}
    why = f"{count_of(len(avoided), 'GPU')} fell sick while it ran there; the last: {reason}"
    return {"held": True, "held_because": why}


def jobs_on(view: View, uuid: str) -> Iterator[Job]:
    """Yield the jobs that hold a device or a part of it, in the order of their arrival."""
    for allocation_id in view.holders.get(uuid, ()):
        job = view.jobs.get(view.allocations[allocation_id].job_id)
        if job is not None:
            yield job


def left_there(view: View) -> dict[str, str]:
    """Return the allocations whose jobs are left on devices that fell sick, each with a sentence that says it."""
    sick = [uuid for uuid, health in sorted(view.health.items()) if health.state is Health.QUARANTINED]
    return {
        job.allocation_id: line
        for uuid in sick
        for job in jobs_on(view, uuid)
        if job.allocation_id is not None and (line := stays_on(view, job.allocation_id)) is not None
    }


def stays_on(view: View, allocation_id: str) -> str | None:
    """Return the sentence that says that a job is left on a device that fell sick; None if it is not."""
    allocation = view.allocations.get(allocation_id)
    job = None if allocation is None else view.jobs.get(allocation.job_id)
    if allocation is None or job is None or not may_stop(job):
        return None
    for uuid in allocation.placement.uuids:
        health = view.health.get(uuid)
        if health is not None and health.state is Health.QUARANTINED:
            return f"{_fell_sick(view, uuid, health)}; it is left there until it ends"
    return None


def error_reason(view: View, uuid: str, sign: HealthSign) -> str:
    """Return why a job ends that made an error on a device, or that cannot go on after it."""
    return f"an error on {_named(view, uuid)}: {sign.detail}"


def blamed(view: View, uuid: str, job_id: str | None) -> Job | None:
    """Return the job of this id if it is on a device or on a slice of it; None if not, or if no job is named."""
    there = (job for place in _with_slices(view, uuid) for job in jobs_on(view, place))
    return next((job for job in there if job.id == job_id and job.spec.kind is JobKind.RUN), None)


def aged(view: View, at: float) -> list[Fact]:
    """Return the facts of the jobs that no longer keep off some device, because its fault is long ago."""
    facts: list[Fact] = []
    for job in view.jobs.values():
        avoided = job.spec.request.avoided
        if avoided and (left := not_aged(avoided, at)) != avoided:
            facts.append(keep_off(job, left, by=BY, at=at))
    return facts


def keep_off(job: Job, avoided: Avoided, *, by: str, at: float) -> JobUpdated:
    """Return the fact by which a job keeps off these devices, and off no others."""
    return JobUpdated(job.id, {"request": replace(job.spec.request, avoided=avoided)}, {}, at=at, by=by)


def _moved(view: View, job: Job, reason: str, at: float) -> list[Fact]:
    """Return the facts that stop the job so that it goes on elsewhere; none if it is left, or stops already."""
    wanted = on_fault(view, job.spec)
    if wanted is OnFault.LEAVE or not may_stop(job) or spent(job) is not None:
        return []
    most = view.limits.site_retries
    if job.site_faults >= most:
        why = f"{reason}; it was requeued for such faults {count_of(most, 'time')} before"
        return stop(job, Phase.FAILED, why, by=BY, at=at)
    eviction = Evict(job.id, job.id, reason, EvictionRule.FAULT)
    return evict(job, eviction, by=BY, at=at, signalled=wanted is OnFault.CHECKPOINT)


def _fell_sick(view: View, uuid: str, health: DeviceHealth) -> str:
    return f"{_named(view, uuid)} fell sick: {health.reason}"


def _named(view: View, uuid: str) -> str:
    return view.device_names().get(uuid, f"GPU {uuid}")


def _promises_broken(view: View, uuid: str, reason: str, at: float) -> list[Fact]:
    """Return the facts that tell waiting jobs that they were promised the device. The next plan promises anew."""
    return [
        JobUpdated(job.id, {"notes": noted(job.spec, f"{reason}; its promised start there is off")}, {}, at=at, by=BY)
        for job_id, promised in sorted(view.promises.items())
        if uuid in promised.placement.uuids and (job := view.jobs.get(job_id)) is not None
    ]
