"""Advises users and administrators on a job whose start cannot be predicted."""

from corral.core.model.audience import Audience, Option
from corral.core.model.jobs.job import Job
from corral.core.model.placing.plan import Wait, WaitReason
from corral.core.model.queues.queue import Limits
from corral.core.model.units import format_duration
from corral.core.model.view import View
from corral.core.scheduling.explaining.phrases import job_called
from corral.core.scheduling.forecast import ExpectedStart

_OF_THE_SITE = (
    "a default time limit (policies.max_job_duration_hours) makes start times known; `backfill: any` for queue {} "
    "lets every job that fits start, even if others then wait longer"
)


def remedy(
    view: View,
    job: Job,
    wait: Wait,
    expected: ExpectedStart,
    now: float,
    *,
    audience: Audience = Audience.COMMAND_LINE,
    admin: bool = False,
) -> str:
    """A sentence on what the job's user, or an administrator, can do if missing time limits make the start unknown.

    The result is "" if the start is known, or does not depend on time limits.
    """
    if expected.start_at is not None or expected.depends_on is None:
        return ""
    of_the_site = _OF_THE_SITE.format(job.spec.queue)
    if wait.reason is not WaitReason.PRIORITY:
        return f"An administrator can change that: {of_the_site}." if admin else ""
    ahead = view.jobs.get(wait.behind or "")
    own = "" if ahead is None else _of_its_own(view.limits, job, ahead, now, audience)
    if own and not admin:
        return own
    return " ".join(part for part in (own, f"An administrator can change that: {of_the_site}.") if part)


def _of_its_own(limits: Limits, job: Job, ahead: Job, now: float, audience: Audience) -> str:
    """A sentence on the time limit with which the job may pass the job ahead, and until when; "" if none helps."""
    if not limits.may_be_passed(ahead.waits_since, now) or limits.may_pass(job.spec.time_limit_s):
        return ""
    limit_s = limits.pass_unknown_limit_s
    value = f"{limit_s:.0f}" if audience is Audience.POD else format_duration(limit_s).replace(" ", "")
    limit = audience.option(Option.TIME, value)
    left = format_duration(ahead.waits_since + limits.pass_unknown_until_s - now)
    command = f": `corral update {job.id} {limit}`" if audience is Audience.COMMAND_LINE and job.id.isdecimal() else ""
    return f"With {limit} or less it may start before {job_called(ahead)} within the next {left}{command}."
