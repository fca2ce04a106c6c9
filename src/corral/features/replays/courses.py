"""Compares courses of the same jobs: the runs of each course, and the jobs that wait shorter or longer in it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from corral.core.model.jobs.job import Job
from corral.features.replays.answers import ReplayCourse, ReplayedGroup, ReplayedJob, ReplayedRun, ReplayResult

STEPS = 240
"""The number of steps into which the time of a replay is divided."""

WAIT_QUANTILES = 51
MOST_GROUPS = 100
MOST_GAINED = 50
"""The most jobs listed for each course that wait less than in the base, and that wait more."""

NO_RUN = ReplayedRun()


@dataclass(frozen=True, slots=True)
class Use:
    """An allocation of this many GPUs from `start` to `end` (Unix seconds)."""

    start: float
    end: float
    gpus: float


@dataclass(slots=True)
class Course:
    """The course of one policy: the run of each job by id, the allocations, and the begin and end of each wait.

    `evictions` is None if they were not counted.
    """

    name: str
    runs: dict[str, ReplayedRun] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    evictions: int | None = None


def side_by_side(
    jobs: Sequence[Job], courses: Sequence[Course], *, since: float, until: float, gpus: int
) -> ReplayResult:
    """Return the courses of these jobs over one axis of time, which begins at `since`; the period itself ends at
    `until`.
    """
    ends = [run.ended_at for course in courses for run in course.runs.values() if run.ended_at is not None]
    step_s = max(1.0, (max([until, *ends]) - since) / STEPS)
    base = 1 if len(courses) > 2 else 0
    told, left_out = _moved(jobs, courses, base)
    return ReplayResult(
        since=since,
        step_s=step_s,
        gpus=gpus,
        base=base,
        courses=tuple(_told(course, since=since, until=until, step_s=step_s, gpus=gpus) for course in courses),
        users=_groups(jobs, courses, lambda job: job.spec.user),
        queues=_groups(jobs, courses, lambda job: job.spec.queue),
        jobs=told,
        left_out=left_out,
    )


def _told(course: Course, *, since: float, until: float, step_s: float, gpus: int) -> ReplayCourse:
    waits = sorted(run.wait_s for run in course.runs.values() if run.wait_s is not None)
    ends = [run.ended_at for run in course.runs.values() if run.ended_at is not None]
    used_s = sum(use.gpus * max(0.0, min(use.end, until) - max(use.start, since)) for use in course.uses)
    return ReplayCourse(
        name=course.name,
        jobs=len(waits),
        unfinished=len(course.runs) - len(waits),
        mean_wait_s=_mean(waits),
        median_wait_s=_quantile(waits, 0.5),
        p90_wait_s=_quantile(waits, 0.9),
        max_wait_s=waits[-1] if waits else None,
        makespan_s=max(ends) - since if ends else None,
        utilization_pct=100 * used_s / (gpus * (until - since)) if gpus and until > since else None,
        evictions=course.evictions,
        allocated=in_steps([(use.start, use.end, use.gpus) for use in course.uses], since, step_s),
        waiting=in_steps([(start, end, 1.0) for start, end in course.waits], since, step_s),
        waits_s=tuple(waits[_rank(part / (WAIT_QUANTILES - 1), len(waits))] for part in range(WAIT_QUANTILES))
        if waits
        else (),
    )


def in_steps(stretches: Sequence[tuple[float, float, float]], since: float, step_s: float) -> tuple[float, ...]:
    """The sum of the heights of all (start, end, height) stretches, on average in each of STEPS steps."""
    partly = [0.0] * STEPS
    changes = [0.0] * (STEPS + 1)
    for start, end, height in stretches:
        first, last = max(0.0, (start - since) / step_s), min(float(STEPS), (end - since) / step_s)
        if last <= first:
            continue
        begin, finish = int(first), min(STEPS - 1, int(last))
        if begin == finish:
            partly[begin] += height * (last - first)
            continue
        partly[begin] += height * (begin + 1 - first)
        partly[finish] += height * (last - finish)
        changes[begin + 1] += height
        changes[finish] -= height
    values, level = [], 0.0
    for part, change in zip(partly, changes, strict=False):
        level += change
        values.append(round(max(0.0, level + part), 3))
    return tuple(values)


def _groups(jobs: Sequence[Job], courses: Sequence[Course], name_of: Callable[[Job], str]) -> tuple[ReplayedGroup, ...]:
    named: dict[str, list[str]] = {}
    for job in jobs:
        named.setdefault(name_of(job), []).append(job.id)
    largest = sorted(named.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_GROUPS]
    return tuple(
        ReplayedGroup(name, len(ids), tuple(_mean(_waits_of(course.runs, ids)) for course in courses))
        for name, ids in largest
    )


def _moved(jobs: Sequence[Job], courses: Sequence[Course], base: int) -> tuple[tuple[ReplayedJob, ...], int]:
    """Return the jobs that moved most in any course, the largest move first, and how many other jobs moved at all."""
    furthest: dict[str, float] = {}
    moved: set[str] = set()
    for course in courses:
        differences = {job.id: _difference(course.runs, courses[base].runs, job.id) for job in jobs}
        ordered = sorted((value, job_id) for job_id, value in differences.items() if value)
        moved.update(job_id for _, job_id in ordered)
        gained = [pair for pair in ordered[:MOST_GAINED] if pair[0] < 0]
        lost = [pair for pair in ordered[-MOST_GAINED:] if pair[0] > 0]
        for value, job_id in (*gained, *lost):
            furthest[job_id] = max(furthest.get(job_id, 0.0), abs(value))
    rows = tuple(
        ReplayedJob(
            id=job.id,
            name=job.spec.name,
            user=job.spec.user,
            queue=job.spec.queue,
            gpus=job.spec.request.devices * job.spec.request.gang_size,
            submitted_at=job.submitted_at,
            runs=tuple(course.runs.get(job.id, NO_RUN) for course in courses),
        )
        for job in sorted((job for job in jobs if job.id in furthest), key=lambda job: -furthest[job.id])
    )
    return rows, len(moved) - len(rows)


def _difference(runs: Mapping[str, ReplayedRun], base: Mapping[str, ReplayedRun], job_id: str) -> float:
    here, there = runs.get(job_id, NO_RUN).wait_s, base.get(job_id, NO_RUN).wait_s
    return 0.0 if here is None or there is None else here - there


def _waits_of(runs: Mapping[str, ReplayedRun], ids: Sequence[str]) -> list[float]:
    return [wait for job_id in ids if (wait := runs.get(job_id, NO_RUN).wait_s) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _quantile(ordered: Sequence[float], part: float) -> float | None:
    return ordered[_rank(part, len(ordered))] if ordered else None


def _rank(part: float, count: int) -> int:
    """Return the index of a quantile of `count` values, by the nearest rank."""
    return max(0, ceil(part * count) - 1)
