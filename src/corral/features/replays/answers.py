"""Answers about replays: recorded jobs run again under other policies."""

from dataclasses import dataclass

from corral.features.replays.replay_state import ReplayState


@dataclass(frozen=True, slots=True)
class ReplayCourse:
    """The course of the jobs of a period: as recorded, or under one policy.

    Waits are times in a queue. They are of jobs that started in the period or later.

    Attributes:
        name: "recorded", else the policy.
        jobs, unfinished: the number of jobs whose waits are counted, and of jobs that did not end (under a small quota,
            for example).
        mean_wait_s, median_wait_s, p90_wait_s, max_wait_s: None if no job is counted.
        makespan_s: from the beginning of the period to the last end.
        utilization_pct: the part of all GPUs that was allocated over the period.
        evictions: how often a job was stopped for another. None for the recorded course.
        allocated, waiting: GPUs allocated and jobs waiting, on average in each step of the replay's time.
        waits_s: the waits that 0 %, 2 %, ... 100 % of the jobs do not exceed.
    """

    name: str
    jobs: int = 0
    unfinished: int = 0
    mean_wait_s: float | None = None
    median_wait_s: float | None = None
    p90_wait_s: float | None = None
    max_wait_s: float | None = None
    makespan_s: float | None = None
    utilization_pct: float | None = None
    evictions: int | None = None
    allocated: tuple[float, ...] = ()
    waiting: tuple[float, ...] = ()
    waits_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayedGroup:
    """The jobs of one user or queue.

    `mean_wait_s` is the mean of their waits as recorded, and as each policy replays them; None if no wait is counted.
    """

    name: str
    jobs: int
    mean_wait_s: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """When a job started first and ended in one course, and how long it waited; all None where it did not end."""

    started_at: float | None = None
    ended_at: float | None = None
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReplayedJob:
    """One job in each course. `submitted_at` is when nothing but its queue kept it any more."""

    id: str
    name: str
    user: str
    queue: str
    gpus: int
    submitted_at: float
    runs: tuple[ReplayedRun, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The courses, with the recorded one first, and their effects on users, queues and jobs.

    Attributes:
        since, step_s: when the steps of `allocated` and `waiting` begin (Unix seconds), and the length of each.
        gpus: the GPUs of the cluster in the replay.
        base: the index of the course, from 0, with which the others are compared.
        users, queues: with the most jobs first, at most 100 of each.
        jobs: the jobs whose waits differ most from those in the base, for each course; `left_out` is how many more
            differ.
    """

    since: float
    step_s: float
    gpus: int
    base: int
    courses: tuple[ReplayCourse, ...] = ()
    users: tuple[ReplayedGroup, ...] = ()
    queues: tuple[ReplayedGroup, ...] = ()
    jobs: tuple[ReplayedJob, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay that a user asked for. It is kept for half an hour after the last request for it.

    Attributes:
        user: the user who asked for it.
        policies: the policies under which the jobs run again; "configured" is each queue's own, by the settings.
        since, until: the period (Unix seconds).
        jobs_done, jobs_total: its progress, 0 of 0 before that is known. A job counts once for each policy.
        ahead: how many replays go first, while it is queued.
        error: why it failed or was cancelled.
        result: once it is done; a list of replays leaves it out.
    """

    id: str
    user: str
    state: ReplayState
    policies: tuple[str, ...]
    since: float
    until: float
    created_at: float
    jobs_done: int = 0
    jobs_total: int = 0
    ahead: int = 0
    error: str | None = None
    result: ReplayResult | None = None


@dataclass(frozen=True, slots=True)
class ReplayChoices:
    """The possible replays, and the caller's replays, newest first, without their results.

    Attributes:
        policies, backfills: names for POLICY and POLICY/BACKFILL; "configured" stands alone.
        configured: the policies that the site's queues have now, each once.
        most_policies: how many policies can be compared.
    """

    policies: tuple[str, ...]
    backfills: tuple[str, ...]
    configured: tuple[str, ...]
    most_policies: int
    replays: tuple[Replay, ...] = ()
