"""Converts jobs, queues and quotas to subjects that alert rules evaluate."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from corral.core.model.devices.device import DeviceSample
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.core.model.printable import printable
from corral.core.model.queues.quota import Scope, ancestry, scopes_of
from corral.core.model.runs.run_history import HOUR_S, spent_since
from corral.core.model.view import View
from corral.core.scheduling.queueing.admission import ineligible
from corral.features.alerts.firing import Subject

MOST_WAITING = 1000
"""The most waiting jobs that are checked, in order of submission."""

MOST_RUNNING = 10_000

UNSEEN_STARTS_S = 3600.0
"""For this long after the watch began, the last start in a queue is unknown unless the watch saw one."""

_NAME_CHARACTERS = 60


def job_subjects(view: View, samples: Mapping[str, DeviceSample], oldest: float, now: float) -> list[Subject]:
    """Return subjects for the oldest waiting jobs and for the jobs with an allocation. Samples taken before `oldest`
    are ignored.
    """
    waiting = list(islice((job for job in view.jobs.values() if job.phase is Phase.PENDING), MOST_WAITING))
    wait_s = {job.id: _wait_s(job, now) for job in waiting}
    waiting_for_gpus = sum(1 for job in waiting if wait_s[job.id] and job.spec.request.total_milli)
    found = [_job_subject(job, {"waiting_s": wait_s[job.id], "running_s": 0.0}) for job in waiting]
    for allocation in islice(view.allocations.values(), MOST_RUNNING):
        job = view.jobs.get(allocation.job_id)
        if job is not None:
            found.append(_job_subject(job, _running(allocation, waiting_for_gpus, samples, oldest, now)))
    return found


def queue_subjects(view: View, last_starts: dict[str, float], began: float, now: float) -> Iterator[Subject]:
    """Yield a subject for every queue of the site. `last_starts` has the last observed start of a job by queue; the
    caller keeps it.

    Starts of jobs that ended before `began` (the start of the watch) were not observed.
    """
    running: Counter[str] = Counter()
    for allocation in view.allocations.values():
        job = view.jobs.get(allocation.job_id)
        if job is not None:
            queue = job.spec.queue
            running[queue] += 1
            last_starts[queue] = max(allocation.created_at, last_starts.get(queue, 0.0))
    waiting: Counter[str] = Counter()
    longest: dict[str, float] = {}
    for job in view.jobs.values():
        if job.phase is Phase.PENDING:
            queue = job.spec.queue
            waiting[queue] += 1
            # There may be 100,000 such jobs, so the cheap condition is tested first.
            if now - job.submitted_at > longest.get(queue, 0.0):
                longest[queue] = max(longest.get(queue, 0.0), _wait_s(job, now))
    for name in sorted(view.queues):
        longest_s = longest.get(name, 0.0)
        readings: dict[str, float | str | None] = {
            "queue": name,
            "waiting_jobs": waiting[name],
            "running_jobs": running[name],
            "longest_wait_s": longest_s,
            "since_start_s": _since_start_s(last_starts.get(name), longest_s, now - began, now),
        }
        called = printable(name)
        yield Subject(f"queue {called}", f"queue {called}", readings, (("queue", called),), group=f"queue {name}")


def _since_start_s(last_start: float | None, longest_wait_s: float, looked_s: float, now: float) -> float | None:
    if not longest_wait_s:
        return 0.0
    if last_start is None:
        return min(longest_wait_s, looked_s) if looked_s >= UNSEEN_STARTS_S else None
    return min(longest_wait_s, max(0.0, now - last_start))


def quota_subjects(view: View, now: float) -> Iterator[Subject]:
    """Yield a subject for every user, project and queue with a quota of GPU-hours."""
    held = _held(view)
    for kind, name, hours, period_s in _gpu_hour_quotas(view):
        if hours <= 0:
            continue
        below = [queue for queue in view.queues if _is_below(view, queue, name)] if kind == "queue" else [name]
        used_s = sum(spent_since(view.spent.get((kind, one), ()), now - period_s) for one in below)
        used_s += sum(gpus * min(period_s, max(0.0, now - since)) for gpus, since in held.get(Scope(kind, name), ()))
        called = printable(f"the quota of {kind} {name}")
        readings: dict[str, float | str | None] = {kind: name, "gpu_hours_used_pct": 100 * used_s / HOUR_S / hours}
        yield Subject(called.removeprefix("the "), called, readings, ((kind, printable(name)),), group=f"{kind} {name}")


def _job_subject(job: Job, readings: Mapping[str, float | str | None]) -> Subject:
    spec = job.spec
    words = {"name": spec.name, "project": spec.project, "queue": spec.queue, "user": spec.user}
    shown = {key: printable(value)[:_NAME_CHARACTERS] for key, value in words.items()}
    called = (
        f"job {job.id} ({shown['name']}) of {shown['user']}" if shown["name"] else f"job {job.id} of {shown['user']}"
    )
    labels = (("job", job.id), *((key, value) for key, value in shown.items() if value))
    gpus = job.spec.request.total_milli / 1000
    return Subject(
        f"job {job.id}",
        called,
        {**words, "gpus": gpus, **readings},
        tuple(sorted(labels)),
        owner=spec.user,
        group=f"user {shown['user']}",
    )


def _running(
    allocation: Allocation, waiting_for_gpus: int, samples: Mapping[str, DeviceSample], oldest: float, now: float
) -> dict[str, float | str | None]:
    uuids = allocation.placement.uuids
    used = [_used_pct(samples.get(uuid), oldest) for uuid in uuids]
    known = [pct for pct in used if pct is not None]
    return {
        "waiting_s": 0.0,
        "running_s": max(0.0, now - allocation.created_at),
        # For a shared device this is the utilization of the whole device: if the device is idle, so is each job on it.
        "busiest_gpu_pct": max(known) if known and len(known) == len(used) else None,
        "others_waiting": waiting_for_gpus,
    }


def _used_pct(sample: DeviceSample | None, oldest: float) -> int | None:
    return None if sample is None or sample.fault is not None or sample.taken_at < oldest else sample.utilization_pct


def _wait_s(job: Job, now: float) -> float:
    """Return the seconds that the job has waited in its queue; 0 while it is not eligible to start."""
    if ineligible(job, now) is not None:
        return 0.0
    return max(0.0, now - max(job.submitted_at, job.eligible_at or 0.0, job.ended_at or 0.0))


def _held(view: View) -> Mapping[Scope, list[tuple[float, float]]]:
    """Return (GPUs, start time) of each current allocation, by the scope whose quota it counts against."""
    held: dict[Scope, list[tuple[float, float]]] = {}
    for allocation in view.allocations.values():
        job = view.jobs.get(allocation.job_id)
        if job is not None and allocation.gpus:
            for scope in scopes_of(job, view.queues):
                held.setdefault(scope, []).append((allocation.gpus, allocation.created_at))
    return held


def _gpu_hour_quotas(view: View) -> Iterator[tuple[str, str, float, float]]:
    """Yield (kind, name, GPU-hours, seconds of a period) of each quota of GPU-hours."""
    quota = view.limits.of_user
    if quota.gpu_hours is not None and quota.period_s is not None:
        users = {name for kind, name in view.spent if kind == "user"}
        users |= {job.spec.user for job in view.jobs.values() if job.phase is not Phase.PENDING}
        for user in sorted(users):
            yield "user", user, quota.gpu_hours, quota.period_s
    for kind, owners in (("project", view.projects), ("queue", view.queues)):
        for name in sorted(owners):
            quota = owners[name].quota
            if quota.gpu_hours is not None and quota.period_s is not None:
                yield kind, name, quota.gpu_hours, quota.period_s


def _is_below(view: View, queue: str, name: str) -> bool:
    return name in ancestry(view.queues, queue)
