"""Explains in one sentence with numbers why a job waits, or how it ended."""

from dataclasses import dataclass, replace

from corral.core.lifecycle.input import spent
from corral.core.model.audience import Audience
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Plan, Wait, WaitReason, group_of
from corral.core.model.runs.exit_code import exit_code_in_words
from corral.core.model.units import format_duration
from corral.core.model.view import View
from corral.core.scheduling.explaining.eviction_notices import eviction_sentence, room_is_made, stopped_for
from corral.core.scheduling.explaining.impossible import impossible
from corral.core.scheduling.explaining.phrases import title_of
from corral.core.scheduling.explaining.reasons import kept_off, wait_clause, wait_of_ineligible, when_it_starts
from corral.core.scheduling.explaining.remedies import remedy
from corral.core.scheduling.explaining.suggestions import flags_that_start
from corral.core.scheduling.forecast import ExpectedStart
from corral.core.scheduling.outlook import Outlook
from corral.core.scheduling.promising.backfill import certainty
from corral.core.scheduling.queueing.admission import ineligible
from corral.core.scheduling.state.packed_request import request_of

_FOR_WANT_OF_ROOM = frozenset({WaitReason.RESOURCES, WaitReason.PRIORITY, WaitReason.RESERVATION})


@dataclass(frozen=True, slots=True)
class WaitExplanation:
    """The explanation why a job waits.

    Attributes:
        position: its position in its queue, from 1.
        expected_start: Unix seconds; None if it is not known.
        depends_on: the id of the job of unknown end on which the start depends.
        starts_now_with: the flags of the most similar request that would start now.
        certainty: whether the expected start is promised.
        makes_room: the ids of the jobs that are being stopped for it.
    """

    sentence: str
    reason: WaitReason
    position: int | None = None
    expected_start: float | None = None
    depends_on: str | None = None
    starts_now_with: str | None = None
    certainty: Certainty | None = None
    makes_room: tuple[str, ...] = ()


def explain(
    view: View,
    job: Job,
    wait: Wait | None,
    now: float,
    *,
    plan: Plan | None = None,
    outlook: Outlook | None = None,
    audience: Audience = Audience.COMMAND_LINE,
    admin: bool = False,
) -> WaitExplanation:
    """Explain why a PENDING job waits at `now` (Unix seconds).

    `wait` is the entry of `plan` for the job or its group, None if there is none. `outlook` belongs to the view; if it
    is None, a planner without a server's settings computes it. The user of a pod that others made can change only its
    manifest. An `admin` can change settings.
    """
    audience = Audience.POD if job.spec.pods else audience
    wait = wait_of_ineligible(job, now) or wait or Wait(job.id, WaitReason.NOT_REACHED, 0)
    outlook = outlook or Outlook(view, now)
    position = outlook.planner.position(job, now)
    expected = outlook.start_of(job)
    never = _never_here(view, job, wait, expected, audience)
    if never is not None:
        expected = ExpectedStart()
    faults = () if plan is None else plan.faults
    suggestion = None
    if wait.reason in _FOR_WANT_OF_ROOM:
        suggestion = flags_that_start(view, job.spec, plan, job, audience=audience)
    leaving = stopped_for(view, job)
    because = (
        f": {room_is_made(leaving, now)}"
        if leaving
        else wait_clause(view, job, wait, position, now, plan=plan, audience=audience)
    )
    parts = [
        f"{title_of(job)} waits{because}.",
        "" if wait.reason in (WaitReason.DEPENDENCY, WaitReason.BACKOFF) else when_it_starts(view, expected, now),
        remedy(view, job, wait, expected, now, audience=audience, admin=admin),
        kept_off(view, job, wait, now, audience),
        "" if never is None else f"It cannot start on the nodes that are here: {never}.",
        "" if suggestion is None else _would_start(suggestion, audience),
        "" if job.evicted is None else eviction_sentence(job, job.evicted, now),
        *(f"{fault[0].upper()}{fault[1:]}." for fault in faults if fault.startswith(f"queue {job.spec.queue}: ")),
    ]
    return WaitExplanation(
        sentence=" ".join(part for part in parts if part),
        reason=wait.reason,
        position=position,
        expected_start=expected.start_at,
        depends_on=expected.depends_on,
        starts_now_with=suggestion,
        certainty=expected.certainty,
        makes_room=tuple(one.id for one in leaving),
    )


def _would_start(suggestion: str, audience: Audience) -> str:
    if audience is Audience.POD:
        return f"A pod with {suggestion} would start now."
    return f"With {suggestion} it would start now."


def _never_here(view: View, job: Job, wait: Wait, expected: ExpectedStart, audience: Audience) -> str | None:
    """A sentence if no node here could ever hold a job that was accepted; None otherwise.

    Its node may have left, or it may be a pod that others made. Devices set apart in pools do not count here, because
    the sentence on devices names them already.
    """
    if expected.start_at is not None or wait.reason not in _FOR_WANT_OF_ROOM:
        return None
    return impossible(view, request_of(view, job), job.spec.speeds, audience=audience)


def wait_reason(job: Job, wait: Wait | None, now: float) -> WaitReason:
    """The reason why the job waits, in one word, for listings."""
    barrier = ineligible(job, now)
    if barrier is not None:
        return barrier.reason
    if job.evicted is not None:
        if job.evicted.rule is EvictionRule.FAULT:
            return WaitReason.GPU_FAULT
        return WaitReason.RECLAIMED if job.evicted.rule.reclaims else WaitReason.PREEMPTED
    return WaitReason.NOT_REACHED if wait is None else wait.reason


def ended_sentence(job: Job, now: float) -> str:
    """A sentence on the state or the end of a job that no longer waits, and on its last eviction, if there was one."""
    ended = _how_it_stands(job, now)
    if job.evictions and job.eviction is not None and job.evicted is None:
        return f"{ended}. {eviction_sentence(job, job.eviction, now)}"
    return ended


def _how_it_stands(job: Job, now: float) -> str:
    ran = "" if job.started_at is None else f" after {format_duration((job.ended_at or now) - job.started_at)}"
    tail = f": {job.reason}" if job.reason else ""
    code = "" if job.exit_code is None else f" with {exit_code_in_words(job.exit_code, job.signal)}"
    if job.phase is Phase.STOPPING and job.evicted is not None and job.stop_reason is Phase.PENDING:
        then = ", and goes back to its queue" if (why := spent(job)) is None else f"; {why}"
        return f"{job.title} is being stopped{then}. {eviction_sentence(job, job.evicted, now)}"
    match job.phase:
        case Phase.STARTING:
            return f"{job.title} has its devices and is being started"
        case Phase.RUNNING:
            since = job.started_at
            return f"{job.title} " + (
                "is running" if since is None else f"has been running for {format_duration(now - since)}"
            )
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


class WaitIndex:
    """Finds the reason why a job waits in a plan, in which one entry stands for a whole group of similar jobs."""

    def __init__(self, plan: Plan, view: View) -> None:
        self._view = view
        self._promises = {one.job_id: one for one in plan.future_starts}
        self._by_job = {wait.job_id: wait for wait in plan.waits}
        self._by_group = {group_of(view.jobs[wait.job_id]): wait for wait in plan.waits if wait.job_id in view.jobs}

    def certainty(self, job_id: str, now: float) -> Certainty | None:
        """Whether the start that the plan foresees for a job is promised; None if it foresees none."""
        promise, wait = self._promises.get(job_id), self._by_job.get(job_id)
        if promise is None or wait is None:
            return None
        return certainty(self._view, promise, now) if wait.keeps_turn else Certainty.EXPECTATION

    def of(self, job: Job) -> Wait | None:
        """The entry of the plan for the job or its group; None if the plan did not look at it."""
        wait = self._by_group.get(group_of(job))
        if job.id in self._by_job or wait is None:
            return self._by_job.get(job.id)
        return replace(wait, job_id=job.id, expected_start=None, depends_on=None)
