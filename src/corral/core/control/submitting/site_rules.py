"""Refuses submissions that this site could never start: unknown queues and projects, limits, quotas."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from corral.core.model.devices.device import Node
from corral.core.model.errors import Forbidden, Refused, nearest
from corral.core.model.jobs.job import Job, JobKind, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Quota
from corral.core.model.queues.quota import Scope, Used, ancestry, lendable_milli, quotas_of
from corral.core.model.units import MW_PER_W, format_duration, format_memory, format_share
from corral.core.model.view import View
from corral.core.scheduling.contradictions import DEFAULT_PROJECT
from corral.core.scheduling.queueing.demand import REQUESTS_REMEMBERED, least_use, power_limits
from corral.core.scheduling.queueing.power_budget import PowerBudget


class LeastUse:
    """The least that a request counts for in quotas on the devices of a view, cached while the nodes stay the same."""

    def __init__(self) -> None:
        self._known: tuple[Mapping[str, Node] | None, dict[Request, Used]] = (None, {})

    def __call__(self, view: View, request: Request) -> Used:
        nodes, known = self._known
        if nodes is not view.nodes or len(known) >= REQUESTS_REMEMBERED:
            _, known = self._known = view.nodes, {}
        if request not in known:
            devices = (device for node in view.nodes.values() for device in node.devices)
            known[request] = least_use(request, devices)
        return known[request]


def obey(view: View, submission: Submission, user: str, least_of: LeastUse) -> None:
    """Raise Refused for a submission that the site's rules would never start; the message has acceptable values.

    A site that defines no queues or projects accepts any names.
    """
    queue, project = submission.queue, submission.project
    refuse_queue(view, queue)
    refuse_project(view, project, user)
    most_s, asked_s = view.limits.max_time_limit_s, submission.time_limit_s
    if most_s is not None and asked_s is not None and asked_s > most_s and submission.kind is not JobKind.ADOPT:
        raise Refused(
            f"a time limit of {format_duration(asked_s)} is more than the {format_duration(most_s)} that this site "
            "allows; ask for less, and continue from a checkpoint in a second job (--after)",
            field="time_limit_s",
        )
    for (kind, name), quota in _quotas(view, user, project, queue):
        if (quota.share_milli, quota.devices, quota.memory_mib) != (None, None, None):
            _refuse_above(f"{kind} {name}", quota, least_of(view, submission.request))
    if view.limits.power_budget_w is not None:
        _refuse_above_power(view, submission.request, view.limits.power_budget_w)


def refuse_queue(view: View, queue: str) -> None:
    """Raise Refused for a queue that does not exist."""
    if view.queues and queue not in view.queues:
        raise Refused(f"there is no queue {queue!r} here; {nearest(queue, view.queues)}", field="queue")


def refuse_project(view: View, project: str, user: str) -> None:
    """Raise Refused for a project that does not exist, and Forbidden for a project that the user is not a member of."""
    if view.projects and project != DEFAULT_PROJECT and project not in view.projects:
        raise Refused(f"there is no project {project!r} here; {nearest(project, view.projects)}", field="project")
    found = view.projects.get(project)
    if found is not None and found.users and user not in found.users:
        raise Forbidden(
            f"{user} is not a member of project {project}; its members are {', '.join(found.users)}", field="project"
        )


def refuse_full(view: View, jobs: Sequence[Job]) -> None:
    """Raise Refused if these jobs exceed a limit on waiting jobs.

    The limits are those of the site, the user, the project, the queue and every queue above it.
    """
    refuse_overflow(view, len(jobs))
    spoken_for = dict.fromkeys((job.spec.user, job.spec.project, job.spec.queue) for job in jobs)
    for (kind, name), quota in dict.fromkeys(one for who in spoken_for for one in _quotas(view, *who)):
        if quota.waiting is not None:
            _refuse_line(view, jobs, kind, name, quota.waiting)


def refuse_move(view: View, jobs: Sequence[Job], queue: str) -> None:
    """Raise Refused if moving these waiting jobs to `queue` would exceed a limit on waiting jobs there or in a queue
    above.
    """
    for name in ancestry(view.queues, queue):
        most = view.queues[name].quota.waiting if name in view.queues else None
        come = [job for job in jobs if name not in ancestry(view.queues, job.spec.queue)]
        if most is not None and come:
            moved = [replace(job, spec=replace(job.spec, queue=queue)) for job in come]
            _refuse_line(view, moved, "queue", name, most)


def refuse_overflow(view: View, more: int) -> None:
    """Raise Refused if the site's queue cannot take this many more jobs."""
    most = view.limits.max_queue_size
    if most is not None and len(view.jobs) + more > most:
        raise Refused(
            f"the queue is full: it has {len(view.jobs)} jobs, this adds {more}, and the site allows {most}; "
            "submit fewer, wait until some have ended, or cancel some"
        )


def _refuse_line(view: View, jobs: Sequence[Job], kind: str, name: str, most: int) -> None:
    below = [queue for queue in view.queues if name in ancestry(view.queues, queue)] if kind == "queue" else [name]
    names = frozenset(below)
    waiting = sum(getattr(job.spec, kind) in names and job.phase is Phase.PENDING for job in view.jobs.values())
    more = sum(getattr(job.spec, kind) in names for job in jobs)
    if waiting + more > most:
        instead = "cancel some" if kind == "user" else f"use another {kind}"
        raise Refused(
            f"too many waiting jobs for {kind} {name}: {waiting} wait, this adds {more}, and at most {most} may wait; "
            f"wait until some have started, or {instead}",
            field=kind,
        )


def _quotas(view: View, user: str, project: str, queue: str) -> Iterator[tuple[Scope, Quota]]:
    """Yield every quota that applies to a job; queues may borrow no more than their siblings can lend."""
    for scope, quota in quotas_of(view.queues, view.projects, view.limits, user=user, project=project, queue=queue):
        if scope.kind == "queue" and quota.borrow_milli:
            lendable = lendable_milli(view.queues, view.queues[scope.name])
            yield scope, replace(quota, borrow_milli=lendable)
        else:
            yield scope, quota


def _refuse_above_power(view: View, request: Request, budget_w: int) -> None:
    devices = [device for node in view.nodes.values() for device in node.devices]
    budget = PowerBudget(budget_w, lambda uuid: (uuid, None), partial(power_limits, devices=devices))
    least_mw = budget.least_mw(request)
    if least_mw is not None and least_mw > budget_w * MW_PER_W:
        raise Refused(
            f"the power limits of its GPUs add up to at least {least_mw / MW_PER_W:.0f} W, and the power budget of "
            f"this site is {budget_w} W; ask for fewer GPUs, or for a lower --power-limit",
            field="gpus",
        )


def _refuse_above(who: str, quota: Quota, least: Used) -> None:
    if quota.share_milli is not None:
        most_milli = quota.share_milli + (quota.borrow_milli or 0)
        if least.milli > most_milli:
            raise Refused(
                f"{who} may use at most {format_share(most_milli)} GPUs at a time, but this job asks for "
                f"{format_share(least.milli)}; ask for fewer",
                field="gpus",
            )
    if quota.devices is not None and least.devices > quota.devices:
        raise Refused(
            f"{who} may use at most {quota.devices} GPUs at a time, but this job asks for {least.devices}; "
            "ask for fewer",
            field="gpus",
        )
    if quota.memory_mib is not None and least.memory_mib > quota.memory_mib:
        raise Refused(
            f"{who} may use at most {format_memory(quota.memory_mib)} of GPU memory at a time, but this job asks "
            f"for {format_memory(least.memory_mib)}; ask for less",
            field="gpu_mem",
        )
