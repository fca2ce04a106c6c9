"""The clauses of an explanation: why a job waits, what it waits for, and when it is expected to start."""

from corral.core.model.audience import Audience
from corral.core.model.jobs.dependency import Condition, clauses_of
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.site_faults import AVOIDED_S
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.fit import Misfit
from corral.core.model.placing.plan import Plan, Wait, WaitReason
from corral.core.model.units import count_of, format_duration
from corral.core.model.view import View
from corral.core.scheduling.explaining.eviction_notices import room_to_make
from corral.core.scheduling.explaining.phrases import job_called, need_of
from corral.core.scheduling.explaining.shortage import shortage
from corral.core.scheduling.forecast import ExpectedStart
from corral.core.scheduling.queueing.admission import ineligible
from corral.core.scheduling.queueing.barred_nodes import barred_to
from corral.core.scheduling.queueing.pools import Pools
from corral.core.scheduling.state.packed_request import request_of


def wait_of_ineligible(job: Job, now: float) -> Wait | None:
    """The reason why a job is not eligible to start yet; None if it is eligible."""
    barrier = ineligible(job, now)
    return None if barrier is None else Wait(job.id, barrier.reason, 0, until=barrier.until, detail=barrier.detail)


def wait_clause(
    view: View,
    job: Job,
    wait: Wait,
    position: int,
    now: float,
    *,
    plan: Plan | None = None,
    audience: Audience = Audience.COMMAND_LINE,
) -> str:
    """The clause that follows "waits": ": it is on hold; ...", " for job 3, which is running; ...".

    `plan` is the plan that holds `wait`, if it is known.
    """
    match wait.reason:
        case WaitReason.HELD:
            return f": {_hold(job, audience)}"
        case WaitReason.DEPENDENCY:
            return f" for {dependency_clause(view, job)}"
        case WaitReason.BEGIN_TIME:
            return f": its begin time is in {format_duration((wait.until or now) - now)}"
        case WaitReason.BACKOFF:
            why = f" ({job.reason})" if job.reason else ""
            pause = format_duration((wait.until or now) - now)
            return f": its last start failed{why}; it is tried again in {pause}"
        case WaitReason.ARRAY_LIMIT:
            return f": {wait.detail}; it starts when one of them ends"
        case WaitReason.LIMIT | WaitReason.POWER_BUDGET:
            return f": {wait.detail}; it starts when enough is released"
        case WaitReason.PRIORITY:
            return f": {_behind(view, job, wait)}"
        case WaitReason.RESERVATION:
            return f": {_would_delay(view, job, wait, plan, now)}"
        case WaitReason.RESOURCES if wait.misfit is not None:
            return f": {_shortage(view, job, wait.misfit, now)}"
        case _ if position > 1:
            return f": {count_of(position - 1, 'job')} ahead of it in the queue"
        case _:
            return ": the scheduler has not considered it yet"


def _hold(job: Job, audience: Audience) -> str:
    release = "Release" if audience is Audience.PAGE else audience.look(f"corral release {job.id}")
    if job.held_because is not None:
        return f"it is held because {job.held_because}; {release} by an administrator lets it start"
    return f"it is on hold; {release} lets it start"


def kept_off(view: View, job: Job, wait: Wait, now: float, audience: Audience) -> str:
    """A sentence on the devices that a job for want of room keeps off, until when, and how to end that; "" if none."""
    avoided = job.spec.request.avoided
    if not avoided or job.spec.request.device_uuids or wait.reason is not WaitReason.RESOURCES:
        return ""
    names = view.device_names()
    gpus = " and ".join(names.get(uuid, f"GPU {uuid}") for uuid, _ in avoided)
    left = format_duration(max(at for _, at in avoided) + AVOIDED_S - now)
    release = "Release" if audience is Audience.PAGE else audience.look(f"corral release {job.id}")
    return f"It keeps off {gpus} for {left} more, which fell sick under it; {release} ends that."


def when_it_starts(view: View, expected: ExpectedStart, now: float) -> str:
    """A sentence on when the job starts, or on the job of unknown end that it waits for; "" if neither is known."""
    if expected.start_at is not None:
        wait_s = max(0.0, expected.start_at - now)
        if expected.certainty is Certainty.PROMISE:
            return f"It starts in {format_duration(wait_s)} at the latest: that start is reserved for it."
        if expected.evictions:
            soon = f" in {format_duration(wait_s)}" if wait_s else ""
            return f"It is expected to start{soon}{',' if soon else ''} {room_to_make(view, expected.evictions)}."
        return f"It is expected to start in {format_duration(wait_s)}." if wait_s else ""
    if expected.depends_on is None or expected.depends_on not in view.jobs:
        return ""
    return (
        f"Its start time is unknown: it depends on {job_called(view.jobs[expected.depends_on])}, which has no "
        "time limit."
    )


def dependency_clause(view: View, job: Job) -> str:
    """The jobs that this one depends on, and the event that lets it start: "train (job 3), which is running; ..."."""
    words = []
    # Jobs that have ended may be gone from the view.
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
    Condition.OK: ("that job succeeds", "those jobs succeed"),
    Condition.CORR: ("that job succeeds", "those jobs succeed"),
    Condition.ANY: ("that job ends", "those jobs end"),
    Condition.SINGLETON: ("that job ends", "those jobs end"),
    Condition.NOT_OK: ("that job ends without success", "those jobs end without success"),
    Condition.START: ("that job starts", "those jobs start"),
}


_TO_SET_IT_S = 60.0

_OF_ONE = {
    Condition.OK: "{} succeeds",
    Condition.CORR: "its element of {} succeeds",
    Condition.ANY: "{} ends",
    Condition.SINGLETON: "every earlier job of its name ends",
    Condition.NOT_OK: "{} ends without success",
    Condition.START: "{} starts",
}


def _after_what(job: Job, count: int) -> str:
    """The event that must happen to the jobs it depends on: "after they succeed", "after 3 ends and 4 starts"."""
    clauses = clauses_of(job.conditions or job.spec.after)
    wanted = {term.condition for clause in clauses for term in clause} or {Condition.OK}
    if all(len(clause) == 1 for clause in clauses) and len({_PLAINLY[one] for one in wanted}) == 1:
        return f"after {_PLAINLY[wanted.pop()][count > 1]}"
    some = [" or ".join(_OF_ONE[term.condition].format(term.job_id) for term in clause) for clause in clauses[:3]]
    return f"after {' and '.join(some)}" + (f" and {len(clauses) - 3} more" if len(clauses) > 3 else "")


def _behind(view: View, job: Job, wait: Wait) -> str:
    ahead = view.jobs.get(wait.behind or "")
    if ahead is None:
        return f"{need_of(job.spec.request)} would be free, but a job ahead of it goes first"
    if wait.detail is not None:
        return (
            f"{wait.detail} is kept for {job_called(ahead)}, which goes first and needs {need_of(ahead.spec.request)}"
        )
    first = f" with priority {ahead.spec.priority}" if ahead.spec.priority != job.spec.priority else ""
    return (
        f"{need_of(job.spec.request)} would be free, but {job_called(ahead)} goes first{first} "
        f"and waits for {need_of(ahead.spec.request)}"
    )


def _would_delay(view: View, job: Job, wait: Wait, plan: Plan | None, now: float) -> str:
    ahead = view.jobs.get(wait.behind or "")
    delayed = "a job ahead of it" if ahead is None else job_called(ahead)
    return (
        f"{need_of(job.spec.request)} would be free, but starting it would delay {delayed}, whose start is "
        f"reserved; with {_limit_to_pass(wait, plan, now)} it could run first"
    )


def _limit_to_pass(wait: Wait, plan: Plan | None, now: float) -> str:
    """The longest time limit that still ends before the job ahead starts, less a minute to set the limit."""
    starts = () if plan is None else plan.future_starts
    start_at = next((one.start_at for one in starts if one.job_id == wait.behind), now)
    left_s = start_at - now - _TO_SET_IT_S
    if left_s < _TO_SET_IT_S:
        return "a shorter time limit"
    return f"a time limit of {format_duration(left_s // _TO_SET_IT_S * _TO_SET_IT_S)} or less"


def _shortage(view: View, job: Job, misfit: Misfit, now: float) -> str:
    closed_pools = Pools(view).placement_request(job, now).closed_pools
    barred = barred_to(view, job.spec.user, job.spec.container)
    return shortage(view, request_of(view, job), misfit, now, closed_pools, barred=barred)
