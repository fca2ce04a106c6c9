"""Converts facts to the rows that listings show. Pure. A topic is one line of `CORE_TOPICS`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from corral.core.control.querying.listing_rows import grant_rows, job_row
from corral.core.model.answers.jobs import JobRow
from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    CommandExecuted,
    DeviceCordoned,
    DeviceHealthChanged,
    DevicesExchanged,
    DeviceUncordoned,
    Fact,
    JobChanged,
    JobRequeued,
    JobSubmitted,
    JobUpdated,
    NodeCordoned,
    NodeDraining,
    NodeUncordoned,
)
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.declared.fields import told_fields

Row = dict[str, Any]
FindJob = Callable[[str], Job | None]

MOST_CHARACTERS = 1_000
"""The most characters of a reason that a user gave; a longer reason is cut."""


class Told(NamedTuple):
    """An event in one word, and the rows that it changed."""

    what: str
    rows: tuple[Row, ...]


RowsOfFact = Callable[[Fact, FindJob], Told | None]
"""The function of a topic that converts a fact to an event, None if the fact does not concern the topic."""

JOB_FIELDS = told_fields(JobRow)
"""The fields of `JobRow` that an event may have."""

_HAS_NOTHING = {"nodes": (), "grants": (), "enforcement": None}


def of_jobs(fact: Fact, find_job: FindJob) -> Told | None:
    """Return the new fields of a job's row, with those that name the job."""
    match fact:
        case JobSubmitted(job=job):
            return Told("submitted", (_whole_row(job),))
        case JobRequeued(job=job):
            return Told("requeued", (_whole_row(job),))
        case JobChanged(job_id=job_id, changes=changes):
            return _changed("changed", job_id, changes, find_job)
        case JobUpdated(job_id=job_id, changes=changes):
            return _changed("updated", job_id, changes, find_job)
        case CommandExecuted(job_id=job_id, command=command, rank=rank, by=by):
            ran = {"exec_command": cut(command), "exec_rank": rank, "exec_by": by}
            return Told("executed", ({**_which(job_id, find_job), **ran},))
        case AllocationMade(allocation=allocation):
            return Told("allocated", ({**_which(allocation.job_id, find_job), **_held(allocation)},))
        case DevicesExchanged(allocation=allocation):
            return Told("exchanged", ({**_which(allocation.job_id, find_job), **_held(allocation)},))
    return None


def of_devices(fact: Fact, find_job: FindJob) -> Told | None:
    """Return the new holders of devices, their health, and the cordons of devices and nodes."""
    match fact:
        case AllocationMade(allocation=allocation) if allocation.placement.grants:
            return Told("allocated", _holders(allocation))
        case DevicesExchanged(allocation=allocation):
            return Told("exchanged", _holders(allocation))
        case AllocationEnded(job_id=job_id):
            return Told("freed", ({"job": job_id},))
        case DeviceCordoned(uuid=uuid, reason=reason):
            return Told("cordoned", ({"uuid": uuid, "reason": reason},))
        case DeviceUncordoned(uuid=uuid):
            return Told("uncordoned", ({"uuid": uuid},))
        case DeviceHealthChanged(uuid=uuid, health=health, evidence=evidence):
            row = {"uuid": uuid, "health": health.state.value, "reason": cut(health.reason) or None}
            return Told("health", ({**row, "evidence": tuple(map(cut, evidence))},))
        case NodeCordoned(node=node, reason=reason):
            return Told("node_cordoned", ({"node": node, "reason": reason},))
        case NodeDraining(node=node, reason=reason, deadline=deadline):
            return Told("node_draining", ({"node": node, "reason": reason, "deadline_at": deadline},))
        case NodeUncordoned(node=node):
            return Told("node_uncordoned", ({"node": node},))
    return None


DEVICES = "devices"
CORE_TOPICS: Mapping[str, RowsOfFact] = {
    "jobs": of_jobs,
    DEVICES: of_devices,
}
"""The topics of the core. Features bring more."""

METRICS = "metrics"
"""The topic of samples, which are not in the journal."""


def _whole_row(job: Job) -> Row:
    row: JobRow = job_row(job, None, None)
    return {name: cut(getattr(row, name)) for name in JOB_FIELDS}


def _changed(what: str, job_id: str, changes: Mapping[str, Any], find_job: FindJob) -> Told | None:
    new = {name: cut(value) for name, value in changes.items() if name in JOB_FIELDS}
    if not new:
        return None
    if new.get("phase") is Phase.PENDING:
        new |= _HAS_NOTHING
        if (job := find_job(job_id)) is not None:
            new["gpus_milli"] = job_row(job, None, None).gpus_milli
    return Told(what, ({**_which(job_id, find_job), **new},))


def _which(job_id: str, find_job: FindJob) -> Row:
    job = find_job(job_id)
    if job is None:
        return {"id": job_id}
    of_spec = {"name": job.spec.name, "user": job.spec.user, "kind": job.spec.kind}
    where = {"queue": job.spec.queue, "project": job.spec.project}
    return {"id": job.id, "array_id": job.array_id, "array_index": job.array_index, **of_spec, **where}


def _held(allocation: Allocation) -> Row:
    placement = allocation.placement
    share = sum(grant.share_milli for grant in placement.grants)
    held = {"nodes": tuple(dict.fromkeys(member.node for member in placement.members)), "devices": placement.uuids}
    granted = {"grants": grant_rows(placement.grants), "enforcement": allocation.enforcement}
    return {**held, **granted, **({"gpus_milli": share} if share else {})}


def _holders(allocation: Allocation) -> tuple[Row, ...]:
    who = {"job": allocation.job_id, "user": allocation.user}
    return tuple(
        {
            "uuid": grant.uuid,
            "node": member.node,
            **who,
            "share_milli": grant.share_milli,
            "memory_mib": grant.memory_mib,
        }
        for member in allocation.placement.members
        for grant in member.grants
    )


def cut(value: Any) -> Any:
    """Return the value, shortened if it is a long text."""
    return value[:MOST_CHARACTERS] if type(value) is str else value
