"""What a site asks of submissions: queues and projects that exist, limits and quotas that a job can ever meet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from corral.model.errors import Forbidden, Refused, nearest
from corral.model.job import Job, JobKind, Phase
from corral.model.queue import Project, Queue, Quota
from corral.model.submission import Submission
from corral.model.units import format_duration, format_memory, format_share
from corral.model.view import View

DEFAULT_PROJECT = "default"
"""Everybody's."""


def obey(view: View, submission: Submission, user: str) -> None:
    """Raises Refused for a submission that the site's rules would never let start, naming what would be accepted.

    A site that has set up no queues or projects takes any.
    """
    queue, project = submission.queue, submission.project
    if view.queues and queue not in view.queues:
        raise Refused(f"there is no queue {queue!r} here; {nearest(queue, view.queues)}", field="queue")
    if view.projects and project != DEFAULT_PROJECT and project not in view.projects:
        raise Refused(f"there is no project {project!r} here; {nearest(project, view.projects)}", field="project")
    found = view.projects.get(project)
    if found is not None and found.users and user not in found.users:
        raise Forbidden(f"project {project} is of {', '.join(found.users)}; {user} is none of them", field="project")
    most_s, asked_s = view.limits.max_time_limit_s, submission.time_limit_s
    if most_s is not None and asked_s is not None and asked_s > most_s and submission.kind is not JobKind.ADOPT:
        raise Refused(
            f"a time limit of {format_duration(asked_s)} is more than the {format_duration(most_s)} that the site "
            "allows a job; ask for less, and go on from a checkpoint in a job that follows (--after)",
            field="time_limit_s",
        )
    for who, quota in _quotas(view, submission, user):
        _refuse_above(who, quota, submission)


def refuse_full(view: View, jobs: Sequence[Job]) -> None:
    """Raises Refused when the site's queue, or one of the queues, has no place for so many more jobs."""
    most = view.limits.max_queue_size
    if most is not None and len(view.jobs) + len(jobs) > most:
        raise Refused(
            f"the queue is full: {len(view.jobs)} jobs are in it and the site allows {most}; "
            "wait until some have ended, or cancel some"
        )
    for kind in ("queue", "project"):
        known: Mapping[str, Queue | Project] = view.queues if kind == "queue" else view.projects
        for name in dict.fromkeys(getattr(job.spec, kind) for job in jobs):
            if name in known and known[name].quota.waiting is not None:
                _refuse_line(view, jobs, kind, name, known[name].quota.waiting)


def _refuse_line(view: View, jobs: Sequence[Job], kind: str, name: str, most: int | None) -> None:
    waiting = sum(getattr(job.spec, kind) == name and job.phase is Phase.PENDING for job in view.jobs.values())
    more = sum(getattr(job.spec, kind) == name for job in jobs)
    if most is not None and waiting + more > most:
        raise Refused(
            f"{kind} {name} is full: {waiting} jobs wait in it, {more} more would, and at most {most} may; "
            f"wait until some have started, or take another {kind}",
            field=kind,
        )


def _quotas(view: View, submission: Submission, user: str) -> Iterator[tuple[str, Quota]]:
    yield f"user {user}", view.limits.of_user
    project = view.projects.get(submission.project)
    if project is not None:
        yield f"project {project.name}", project.quota
    seen: list[str] = []
    name: str | None = submission.queue
    while name is not None and name not in seen and name in view.queues:
        yield f"queue {name}", _with_loans(view, view.queues[name])
        seen.append(name)
        name = view.queues[name].parent


def _with_loans(view: View, queue: Queue) -> Quota:
    """The queue's quota, in which it may borrow no more than the queues beside it have to lend."""
    if not queue.quota.borrow_milli:
        return queue.quota
    beside = (one for one in view.queues.values() if one.parent == queue.parent and one.name != queue.name)
    lendable_milli = sum(one.quota.share_milli or 0 for one in beside)
    return replace(queue.quota, borrow_milli=min(queue.quota.borrow_milli, lendable_milli))


def _refuse_above(who: str, quota: Quota, submission: Submission) -> None:
    request = submission.request
    devices = request.gang_size * request.devices
    if quota.share_milli is not None:
        most_milli = quota.share_milli + (quota.borrow_milli or 0)
        if devices and request.total_milli > most_milli:
            raise Refused(
                f"{who} may hold at most {format_share(most_milli)} GPUs at once and this job asks for "
                f"{format_share(request.total_milli)}; ask for no more",
                field="gpus",
            )
    if quota.devices is not None and devices > quota.devices:
        raise Refused(
            f"{who} may hold at most {quota.devices} GPUs at once and this job asks for {devices}; ask for no more",
            field="gpus",
        )
    memory_mib = devices * (request.memory_mib or 0)
    if quota.memory_mib is not None and memory_mib > quota.memory_mib:
        raise Refused(
            f"{who} may hold at most {format_memory(quota.memory_mib)} of GPU memory at once and this job asks for "
            f"{format_memory(memory_mib)}; ask for no more",
            field="gpu_mem",
        )
