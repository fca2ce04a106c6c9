"""Converts facts to the rows that listings show. Pure. A topic is one line of `JOURNAL_TOPICS`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from corral.core.control.querying.listing_rows import grant_rows, job_row
from corral.core.control.tuning.experiment_summary import summary_of
from corral.core.model.alerts.alert import Alert
from corral.core.model.answers.jobs import JobRow
from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    CommandExecuted,
    DeviceCordoned,
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
from corral.core.model.tuning.tuning_error import for_everybody
from corral.core.model.tuning.tuning_task import TuningTask
from corral.declared.fields import told_fields
from corral.features.alerts.facts import AlertFact, AlertForgotten, AlertsSilenced, SilenceEnded
from corral.features.tuner.facts import ExperimentFact, ExperimentsCleared, TaskDeleted, TaskFact
from corral.wire import to_plain

Row = dict[str, Any]
FindJob = Callable[[str], Job | None]

MOST_CHARACTERS = 1_000
"""The most characters of a reason that a user gave; a longer reason is cut."""


class Told(NamedTuple):
    """An event in one word, and the rows that it changed."""

    what: str
    rows: tuple[Row, ...]


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
            ran = {"exec_command": _cut(command), "exec_rank": rank, "exec_by": by}
            return Told("executed", ({**_which(job_id, find_job), **ran},))
        case AllocationMade(allocation=allocation):
            return Told("allocated", ({**_which(allocation.job_id, find_job), **_held(allocation)},))
    return None


def of_devices(fact: Fact, find_job: FindJob) -> Told | None:
    """Return the new holders of devices, and the cordons of devices and nodes."""
    match fact:
        case AllocationMade(allocation=allocation) if allocation.placement.grants:
            return Told("allocated", _holders(allocation))
        case AllocationEnded(job_id=job_id):
            return Told("freed", ({"job": job_id},))
        case DeviceCordoned(uuid=uuid, reason=reason):
            return Told("cordoned", ({"uuid": uuid, "reason": reason},))
        case DeviceUncordoned(uuid=uuid):
            return Told("uncordoned", ({"uuid": uuid},))
        case NodeCordoned(node=node, reason=reason):
            return Told("node_cordoned", ({"node": node, "reason": reason},))
        case NodeDraining(node=node, reason=reason, deadline=deadline):
            return Told("node_draining", ({"node": node, "reason": reason, "deadline_at": deadline},))
        case NodeUncordoned(node=node):
            return Told("node_uncordoned", ({"node": node},))
    return None


def of_alerts(fact: Fact, find_job: FindJob) -> Told | None:
    """Return the new state of an alert or a silence."""
    match fact:
        case AlertFact(alert=alert):
            return Told(type(fact).__name__.removeprefix("Alert").lower(), (_alert_row(alert),))
        case AlertForgotten(alert_id=alert_id):
            return Told("forgotten", ({"id": alert_id},))
        case AlertsSilenced(silence=silence):
            return Told("silenced", (to_plain(silence),))
        case SilenceEnded(silence_id=silence_id):
            return Told("silence_ended", ({"id": silence_id},))
    return None


def of_tasks(fact: Fact, find_job: FindJob) -> Told | None:
    """Return the row of a task, or a summary of an experiment. An experiment has a `task_id`."""
    match fact:
        case TaskFact(task=task):
            return Told(type(fact).__name__.removeprefix("Task").lower(), (_task_row(task),))
        case TaskDeleted(task_id=task_id):
            return Told("deleted", ({"id": task_id},))
        case ExperimentsCleared(task_id=task_id):
            return Told("experiments_cleared", ({"id": task_id},))
        case ExperimentFact(experiment=experiment):
            what = type(fact).__name__.removeprefix("Experiment").lower()
            return Told(f"experiment_{what}", (to_plain(summary_of(experiment)),))
    return None


DEVICES = "devices"
JOURNAL_TOPICS: Mapping[str, Callable[[Fact, FindJob], Told | None]] = {
    "jobs": of_jobs,
    DEVICES: of_devices,
    "alerts": of_alerts,
    "tasks": of_tasks,
}
"""The function of each topic that converts a fact to an event, None if the fact does not concern the topic."""

METRICS = "metrics"
TOPICS = (*JOURNAL_TOPICS, METRICS)


def _alert_row(alert: Alert) -> Row:
    """Return the row of an alert as in listings, but without whether it is silenced now: the silences tell that."""
    state = "firing" if alert.fires else "resolved"
    row = {**to_plain(alert), "labels": dict(alert.labels), "state": state}
    del row["owner"]
    return row


def _task_row(task: TuningTask) -> Row:
    """Return the row of a task as in listings, but without the results of its experiments."""
    return {
        "id": task.id,
        "user": task.user,
        "task_name": task.spec.task_name,
        "model": task.spec.model.id_or_path,
        "status": task.status,
        "planned_experiments": task.planned_experiments,
        "error_message": _cut(for_everybody(task.error_message)),
        "created_at": task.created_at,
        "started_at": task.started_at,
        "completed_at": task.completed_at,
    }


def _whole_row(job: Job) -> Row:
    row: JobRow = job_row(job, None, None)
    return {name: _cut(getattr(row, name)) for name in JOB_FIELDS}


def _changed(what: str, job_id: str, changes: Mapping[str, Any], find_job: FindJob) -> Told | None:
    new = {name: _cut(value) for name, value in changes.items() if name in JOB_FIELDS}
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


def _cut(value: Any) -> Any:
    return value[:MOST_CHARACTERS] if type(value) is str else value
