"""Why a job waits, in one sentence with the numbers, and what to do about it."""

from dataclasses import dataclass, replace

from corral.model.allocation import Placement
from corral.model.certainty import Certainty
from corral.model.dependency import Condition, clauses_of
from corral.model.fact import JobSubmitted, ServerPart
from corral.model.fit import Misfit
from corral.model.job import DEFAULT_PRIORITY, Job, JobSpec, Phase, Request
from corral.model.plan import Hold, Plan, WaitReason, group_of
from corral.model.submission import Submission
from corral.model.units import count_of, format_duration
from corral.model.view import View
from corral.scheduling.explaining.eviction_notices import eviction_sentence, room_is_made, room_to_make, stopped_for
from corral.scheduling.explaining.impossible import impossible
from corral.scheduling.explaining.phrases import flags_of, job_called, need_of, title_of
from corral.scheduling.explaining.shortage import shortage
from corral.scheduling.explaining.suggestions import nearest_that_starts
from corral.scheduling.forecast import ExpectedStart, MakePlanner, expected_starts
from corral.scheduling.planner import Planner
from corral.scheduling.promising.backfill import certainty
from corral.scheduling.queueing.admission import ineligible
from corral.scheduling.queueing.pools import Pools, closed_pools_of


@dataclass(frozen=True, slots=True)
class WaitExplanation:
    """Why a job waits. `starts_now_with` are the flags of the nearest request that would start at once.

    `certainty` says what the expected start is, `makes_room` who is being stopped for the job.
    """

    sentence: str
    reason: WaitReason
    position: int | None = None
    expected_start: float | None = None
    depends_on: str | None = None
    starts_now_with: str | None = None
    certainty: Certainty | None = None
    makes_room: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubmissionForecast:
    """What would become of a submission now: where it starts, or why not, when, and what would start instead.

    What can never start here is not `possible`, and would be refused.
    """

    sentence: str
    placement: Placement | None = None
    expected_start: float | None = None
    nearest: str | None = None
    possible: bool = True
    certainty: Certainty | None = None


def explain(
    view: View, job: Job, hold: Hold | None, now: float, *, plan: Plan | None = None, planner: MakePlanner = Planner
) -> WaitExplanation:
    """Why a PENDING job waits at `now`. `hold` is the plan's for the job or its group, None if it has none.

    `planner` makes a planner as the server's own is made: it is asked when the job will start.
    """
    hold = _parking(job, now) or hold or Hold(job.id, WaitReason.NOT_REACHED, 0)
    fresh = planner(view)
    position = fresh.position(job, now)
    expected = expected_starts(view, now, [job.id], planner=lambda _: fresh)[job.id]
    faults = () if plan is None else plan.faults
    suggestion = None
    if hold.reason in (WaitReason.RESOURCES, WaitReason.PRIORITY, WaitReason.RESERVATION):
        smaller = nearest_that_starts(view, job.spec, plan, job)
        suggestion = _flags(smaller, job.spec.request)
    leaving = stopped_for(view, job)
    because = f": {room_is_made(leaving, now)}" if leaving else _because(view, job, hold, position, now)
    parts = [
        f"{title_of(job)} waits{because}.",
        "" if hold.reason in (WaitReason.DEPENDENCY, WaitReason.BACKOFF) else _when(view, expected, now),
        "" if suggestion is None else f"{suggestion} starts now.",
        "" if job.evicted is None else eviction_sentence(job, job.evicted, now),
        *(f"{fault[0].upper()}{fault[1:]}." for fault in faults if fault.startswith(f"queue {job.spec.queue}: ")),
    ]
    return WaitExplanation(
        sentence=" ".join(part for part in parts if part),
        reason=hold.reason,
        position=position,
        expected_start=expected.start_at,
        depends_on=expected.depends_on,
        starts_now_with=suggestion,
        certainty=expected.certainty,
        makes_room=tuple(one.id for one in leaving),
    )


def _parking(job: Job, now: float) -> Hold | None:
    """What keeps the job out of its queue, None when nothing does."""
    barrier = ineligible(job, now)
    return None if barrier is None else Hold(job.id, barrier.reason, 0, until=barrier.until, detail=barrier.detail)


def forecast(
    view: View,
    submission: Submission,
    user: str,
    now: float,
    *,
    waits_for: tuple[str, ...] = (),
    plan: Plan | None = None,
    planner: MakePlanner = Planner,
) -> SubmissionForecast:
    """What would become of `submission`, were `user` to submit it at `now`.

    `waits_for` are those of the jobs it is to follow that have not ended.
    """
    request = submission.request
    job = _as_last(view, submission, user, now)
    never = impossible(view, request, submission.speeds, closed_pools_of(view, user, submission.project))
    if never is not None:
        nearest = _flags(nearest_that_starts(view, job.spec), request)
        return SubmissionForecast(f"it can never start here: {never}", nearest=nearest, possible=False)
    if submission.held:
        return SubmissionForecast("it would wait: it is to be held until `corral release`")
    if waits_for:
        return SubmissionForecast(f"it would wait: for {_parents(view, replace(job, waits_for=waits_for))}")
    asked = view.advance([JobSubmitted(job, at=now, by=ServerPart.SCHEDULER)])
    expected = expected_starts(asked, now, [job.id], planner=planner)[job.id]
    if expected.at_once:
        return SubmissionForecast("it would start now", placement=expected.placement, expected_start=now)
    when = _when(view, expected, now)
    smaller = None
    if ineligible(job, now) is None:
        smaller = nearest_that_starts(view, job.spec, plan or planner(view).plan(now))
    return SubmissionForecast(
        f"it would wait: {_in_the_way(asked, job, now, planner)}" + (f". {when}" if when else ""),
        expected_start=expected.start_at,
        certainty=expected.certainty,
        nearest=_flags(smaller, request),
    )


def _in_the_way(asked: View, job: Job, now: float, planner: MakePlanner) -> str:
    """Why the job, which is in the view as if it had been submitted, would be left waiting: as `explain` tells it."""
    fresh = planner(asked)
    hold = _parking(job, now) or HoldIndex(fresh.plan(now), asked).of(job)
    if hold is None:
        return "others go first"
    return _because(asked, job, hold, fresh.position(job, now), now).removeprefix(": ")


def _as_last(view: View, submission: Submission, user: str, now: float) -> Job:
    """The submission as a job that comes after all there are."""
    spec = JobSpec(
        user=user,
        name=submission.name,
        kind=submission.kind,
        request=submission.request,
        priority=DEFAULT_PRIORITY if submission.priority is None else submission.priority,
        queue=submission.queue,
        project=submission.project,
        time_limit_s=submission.time_limit_s,
        speeds=submission.speeds,
        after=submission.after,
    )
    last = max((job.sequence for job in view.jobs.values()), default=0)
    return Job("the one asked about", last + 1, spec, now, eligible_at=submission.begin_at)


def _shortage(view: View, job: Job, misfit: Misfit, now: float) -> str:
    return shortage(view, job.spec.request, misfit, now, Pools(view.pools).placement_request(job, now).closed_pools)


def _when(view: View, expected: ExpectedStart, now: float) -> str:
    """When it starts, or which job without an end in sight that depends on."""
    if expected.start_at is not None:
        wait_s = max(0.0, expected.start_at - now)
        if expected.certainty is Certainty.PROMISE:
            return f"It starts in {format_duration(wait_s)} at the latest, which is reserved for it."
        if expected.evictions:
            soon = f" in {format_duration(wait_s)}" if wait_s else ""
            return f"It is expected to start{soon}{',' if soon else ''} {room_to_make(view, expected.evictions)}."
        return f"It is expected to start in {format_duration(wait_s)}." if wait_s else ""
    if expected.depends_on is None or expected.depends_on not in view.jobs:
        return ""
    return f"When it starts depends on {job_called(view.jobs[expected.depends_on])}, which has no time limit."


def wait_reason(job: Job, hold: Hold | None, now: float) -> WaitReason:
    """The reason in one word, for listings."""
    barrier = ineligible(job, now)
    if barrier is not None:
        return barrier.reason
    if job.evicted is not None:
        return WaitReason.RECLAIMED if job.evicted.rule.reclaims else WaitReason.PREEMPTED
    return WaitReason.NOT_REACHED if hold is None else hold.reason


def ended_sentence(job: Job, now: float) -> str:
    """What became of a job that waits no longer, and how it once made room for others."""
    ended = _how_it_stands(job, now)
    if job.evictions and job.eviction is not None and job.evicted is None:
        return f"{ended}. {eviction_sentence(job, job.eviction, now)}"
    return ended


def _how_it_stands(job: Job, now: float) -> str:
    ran = "" if job.started_at is None else f" after {format_duration((job.ended_at or now) - job.started_at)}"
    tail = f": {job.reason}" if job.reason else ""
    code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
    if job.phase is Phase.STOPPING and job.evicted is not None and job.stop_reason is Phase.PENDING:
        return f"{job.title} is being stopped, and goes back to its queue. {eviction_sentence(job, job.evicted, now)}"
    match job.phase:
        case Phase.STARTING:
            return f"{job.title} has its devices and is being started"
        case Phase.RUNNING:
            since = "" if job.started_at is None else f" and has run for {format_duration(now - job.started_at)}"
            return f"{job.title} does not wait: it is running{since}"
        case Phase.STOPPING:
            return f"{job.title} is being stopped{tail}"
        case Phase.SUCCEEDED:
            return f"{job.title} succeeded{ran}{tail}"
        case Phase.FAILED:
            return f"{job.title} failed{code}{ran}{tail}"
        case Phase.CANCELLED:
            if job.reason and job.reason.startswith("cancelled"):
                return f"{job.title} was {job.reason}{ran}"
            return f"{job.title} was cancelled{ran}{tail}"
        case Phase.TIMED_OUT:
            return f"{job.title} reached {job.reason or 'its time limit'}{ran}"
        case Phase.LOST:
            return f"{job.title} was lost{ran}{tail}"
        case Phase.PENDING:
            return f"{job.title} waits"


def _flags(easier: Request | None, asked: Request) -> str | None:
    return None if easier is None else flags_of(easier, asked)


def _because(view: View, job: Job, hold: Hold, position: int, now: float) -> str:
    match hold.reason:
        case WaitReason.HELD:
            return f": it is on hold; `corral release {job.id}` lets it go"
        case WaitReason.DEPENDENCY:
            return f" for {_parents(view, job)}"
        case WaitReason.BEGIN_TIME:
            return f": its begin time comes in {format_duration((hold.until or now) - now)}"
        case WaitReason.BACKOFF:
            why = f" ({job.reason})" if job.reason else ""
            pause = format_duration((hold.until or now) - now)
            return f": its last start failed{why}; it is tried again in {pause}"
        case WaitReason.ARRAY_LIMIT:
            return f": {hold.detail}; it goes on when one of them ends"
        case WaitReason.LIMIT:
            return f": {hold.detail}; it goes on when there is room again"
        case WaitReason.PRIORITY:
            return f": {_behind(view, job, hold)}"
        case WaitReason.RESERVATION:
            return f": {_would_delay(view, job, hold)}"
        case WaitReason.RESOURCES if hold.misfit is not None:
            return f": {_shortage(view, job, hold.misfit, now)}"
        case _ if position > 1:
            return f": {count_of(position - 1, 'job')} ahead of it, and it is looked at after them"
        case _:
            return ": it has just come and has not been looked at yet"


def _parents(view: View, job: Job) -> str:
    words = []
    # Some in a long list have succeeded.
    waited_for = [parent for parent in job.waits_for if parent in view.jobs] or job.waits_for
    for parent in waited_for[:3]:
        other = view.jobs.get(parent)
        phase = "" if other is None else f", which is {'waiting' if other.phase is Phase.PENDING else 'running'}"
        words.append((f"job {parent}" if other is None else job_called(other)) + phase)
    more = len(waited_for) - 3
    if more > 0:
        words.append(f"{more} more")
    return f"{'; '.join(words)}; it starts {_after_what(job, len(waited_for))}"


_PLAINLY = {
    Condition.OK: ("that succeeds", "they succeed"),
    Condition.CORR: ("that succeeds", "they succeed"),
    Condition.ANY: ("that ends", "they end"),
    Condition.SINGLETON: ("that ends", "they end"),
    Condition.NOT_OK: ("that ends otherwise than well", "they end otherwise than well"),
    Condition.START: ("that starts", "they start"),
}
_OF_ONE = {
    Condition.OK: "{} succeeds",
    Condition.CORR: "its element of {} succeeds",
    Condition.ANY: "{} ends",
    Condition.SINGLETON: "every earlier job of its name ends",
    Condition.NOT_OK: "{} ends otherwise than well",
    Condition.START: "{} starts",
}


def _after_what(job: Job, count: int) -> str:
    """What has to become of those it waits for: "after they succeed", "after 3 ends and 4 starts or 5 succeeds"."""
    clauses = clauses_of(job.conditions or job.spec.after)
    wanted = {term.condition for clause in clauses for term in clause} or {Condition.OK}
    if all(len(clause) == 1 for clause in clauses) and len({_PLAINLY[one] for one in wanted}) == 1:
        return f"after {_PLAINLY[wanted.pop()][count > 1]}"
    some = [" or ".join(_OF_ONE[term.condition].format(term.job_id) for term in clause) for clause in clauses[:3]]
    return f"after {' and '.join(some)}" + (f" and {len(clauses) - 3} more" if len(clauses) > 3 else "")


def _behind(view: View, job: Job, hold: Hold) -> str:
    ahead = view.jobs.get(hold.behind or "")
    if ahead is None:
        return f"what it needs ({need_of(job.spec.request)}) is kept for a job ahead of it"
    if hold.detail is not None:
        return (
            f"{hold.detail} is kept for {job_called(ahead)}, which goes first and needs {need_of(ahead.spec.request)}"
        )
    first = f" with priority {ahead.spec.priority}" if ahead.spec.priority != job.spec.priority else ""
    return (
        f"{need_of(job.spec.request)} would be free, but {job_called(ahead)} goes first{first} "
        f"and waits for {need_of(ahead.spec.request)}"
    )


def _would_delay(view: View, job: Job, hold: Hold) -> str:
    ahead = view.jobs.get(hold.behind or "")
    delayed = "a job ahead of it" if ahead is None else job_called(ahead)
    limit = job.spec.time_limit_s
    shorter = "a time limit that is short enough" if limit is None else f"a limit shorter than {format_duration(limit)}"
    return (
        f"{need_of(job.spec.request)} would be free, but starting it would delay {delayed}, which has that reserved; "
        f"with {shorter} it could run before"
    )


class HoldIndex:
    """The holds of one plan, found by job: a hold stands for its whole group."""

    def __init__(self, plan: Plan, view: View) -> None:
        self._view = view
        self._reservations = {one.job_id: one for one in plan.reservations}
        self._by_job = {hold.job_id: hold for hold in plan.holds}
        self._by_group = {group_of(view.jobs[hold.job_id]): hold for hold in plan.holds if hold.job_id in view.jobs}

    def certainty(self, job_id: str, now: float) -> Certainty | None:
        """What the start is that is reserved for a job, None when none is."""
        reserve, hold = self._reservations.get(job_id), self._by_job.get(job_id)
        if reserve is None or hold is None:
            return None
        return certainty(self._view, reserve, now) if hold.keeps_turn else Certainty.EXPECTATION

    def of(self, job: Job) -> Hold | None:
        """The hold of the job or of its group, None when the plan did not come to it."""
        hold = self._by_group.get(group_of(job))
        if job.id in self._by_job or hold is None:
            return self._by_job.get(job.id)
        return replace(hold, job_id=job.id, expected_start=None, depends_on=None)
