"""Says what would happen to a submission now, for a dry run: it starts, waits, or is impossible."""

from dataclasses import dataclass, replace

from corral.core.model.fact import JobSubmitted, ServerPart
from corral.core.model.jobs.job import DEFAULT_PRIORITY, Job, JobSpec
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.plan import Plan
from corral.core.model.view import View
from corral.core.scheduling.explaining.impossible import impossible
from corral.core.scheduling.explaining.reasons import dependency_clause, wait_clause, wait_of_ineligible, when_it_starts
from corral.core.scheduling.explaining.remedies import remedy
from corral.core.scheduling.explaining.suggestions import flags_that_start
from corral.core.scheduling.explaining.why import WaitIndex
from corral.core.scheduling.forecast import MakePlanner, expected_starts
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.queueing.admission import ineligible
from corral.core.scheduling.queueing.pools import closed_pools_of


@dataclass(frozen=True, slots=True)
class SubmissionForecast:
    """The fate of a submission if it were made now.

    Attributes:
        placement: where it would be placed, now or at its expected start.
        expected_start: Unix seconds; None if it is not known.
        nearest: the flags of the most similar request that would start now.
        possible: False if no node could ever serve it: the server would refuse it.
    """

    sentence: str
    placement: Placement | None = None
    expected_start: float | None = None
    nearest: str | None = None
    possible: bool = True
    certainty: Certainty | None = None


def forecast_submission(
    view: View,
    submission: Submission,
    user: str,
    now: float,
    *,
    waits_for: tuple[str, ...] = (),
    plan: Plan | None = None,
    planner: MakePlanner = Planner,
) -> SubmissionForecast:
    """The forecast for the submission if `user` submitted it at `now` (Unix seconds).

    `waits_for` are the ids of the jobs it depends on that have not ended.
    """
    job = as_last(view, submission, user, now)
    never = impossible(view, submission.request, submission.speeds, closed_pools_of(view, user, submission.project))
    if never is not None:
        nearest = flags_that_start(view, job.spec)
        return SubmissionForecast(f"it can never start here: {never}", nearest=nearest, possible=False)
    if submission.held:
        return SubmissionForecast("it would wait: on hold until `corral release`")
    if waits_for:
        return SubmissionForecast(f"it would wait: for {dependency_clause(view, replace(job, waits_for=waits_for))}")
    asked = view.advance([JobSubmitted(job, at=now, by=ServerPart.SCHEDULER)])
    expected = expected_starts(asked, now, [job.id], planner=planner)[job.id]
    if expected.at_once:
        return SubmissionForecast("it would start now", placement=expected.placement, expected_start=now)
    fresh = planner(asked)
    planned = fresh.plan(now)
    wait = wait_of_ineligible(job, now) or WaitIndex(planned, asked).of(job)
    in_the_way, advice = "others go first", ""
    if wait is not None:
        in_the_way = wait_clause(asked, job, wait, fresh.position(job, now), now, plan=planned).removeprefix(": ")
        advice = remedy(asked, job, wait, expected, now)
    words = [when_it_starts(view, expected, now), advice]
    nearest = None
    if ineligible(job, now) is None:
        nearest = flags_that_start(view, job.spec, plan or planner(view).plan(now))
    return SubmissionForecast(
        ". ".join(part for part in (f"it would wait: {in_the_way}", " ".join(filter(None, words))) if part),
        expected_start=expected.start_at,
        certainty=expected.certainty,
        nearest=nearest,
    )


def as_last(view: View, submission: Submission, user: str, now: float) -> Job:
    """The submission as a job that comes after all others."""
    spec = JobSpec(
        user=user,
        name=submission.name,
        command=submission.command,
        kind=submission.kind,
        request=submission.request,
        priority=DEFAULT_PRIORITY if submission.priority is None else submission.priority,
        queue=submission.queue,
        project=submission.project,
        time_limit_s=submission.time_limit_s,
        speeds=submission.speeds,
        after=submission.after,
        begin_at=submission.begin_at,
    )
    last = max((job.sequence for job in view.jobs.values()), default=0)
    return Job("the one asked about", last + 1, spec, now, eligible_at=submission.begin_at)
