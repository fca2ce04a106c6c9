"""Faults during the jobs of one user: a user under whose jobs GPUs fall sick again and again starts nothing new.

An administrator who releases a job of the user ends that. Devices of one node that fall sick within minutes count once,
because a node breaks without anybody's doing. What several users share counts for none of them.
"""

from corral.core.lifecycle.phase_changes import held_by_server
from corral.core.model.fact import Fact, ServerPart, UserFaultsCounted
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View

ONE_INCIDENT_S = 600.0
REMEMBERED_S = 86_400.0
MOST_INCIDENTS = 3
"""A user under whose jobs GPUs fell sick more often than this within REMEMBERED_S starts nothing new."""


def counted(view: View, user: str, node: str, reason: str, at: float) -> list[Fact]:
    """Count a fault during a job of a user, and hold the user's waiting jobs if it is one too many.

    Jobs that stop, to wait again, are held too.
    """
    before, by = _recent(view, user, at), ServerPart.HEALTH_WATCH
    facts: list[Fact] = []
    if not any(where == node and at - when < ONE_INCIDENT_S for where, when in before):
        facts.append(UserFaultsCounted(user, (*before, (node, at)), reason, at=at, by=by))
    why = why_held(view.advance(facts), user, at)
    if why is not None:
        # A hold of the user's own does not count: the user may lift it.
        mine = (job for job in view.jobs.values() if job.spec.user == user and job.held_because is None)
        facts += [held_by_server(job, why, at=at, by=by) for job in mine if _waits_or_will(job)]
    return facts


def _waits_or_will(job: Job) -> bool:
    return job.phase is Phase.PENDING or (job.phase is Phase.STOPPING and job.stop_reason is Phase.PENDING)


def why_held(view: View, user: str, at: float) -> str | None:
    """Return why jobs of the user are held, a sentence without its full stop; None if they are not."""
    incidents = _recent(view, user, at)
    if len(incidents) <= MOST_INCIDENTS:
        return None
    return (
        f"GPUs fell sick during jobs of {user} {len(incidents)} times within a day; the last: {view.faults[user].last}"
    )


def trusted_again(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    """Return the fact that ends the holds for the faults of a job's user; none if the user has none."""
    return [UserFaultsCounted(job.spec.user, (), "", at=at, by=by)] if job.spec.user in view.faults else []


def _recent(view: View, user: str, at: float) -> tuple[tuple[str, float], ...]:
    known = view.faults.get(user)
    return () if known is None else tuple(one for one in known.incidents if at - one[1] < REMEMBERED_S)
