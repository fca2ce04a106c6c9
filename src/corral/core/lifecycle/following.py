"""Jobs that follow others: the effect of a start or an end on the jobs that wait for it, and on their own followers."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from corral.core.lifecycle.phase_changes import change
from corral.core.model.fact import Fact, JobChanged
from corral.core.model.jobs.dependency import (
    Condition,
    Dependency,
    Settled,
    clauses_of,
    conditions_to_keep,
    covers,
    settled_by,
    wait_for_ends_alone,
)
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import JobPatch, patched
from corral.core.model.jobs.phase import TERMINAL_PHASES, Phase
from corral.core.model.view import View

LONG_WAIT = 64
"""A list of more awaited jobs than this is rewritten only once it is half as long: rewriting the rest at each of ten
thousand ends would fill the disk.
"""


def followers(view: View, job: Job, phase: Phase, *, by: str, at: float) -> list[Fact]:
    """Return the effect of a start or an end on the jobs that wait for it, and on their followers in turn.

    Each has one parent fewer, or is cancelled.
    """
    if job.id not in view.dependants:
        return []
    facts: list[Fact] = []
    moved = {job.id: replace(job, phase=phase)}
    pending = [moved[job.id]]
    informed: set[str] = set()
    while pending:
        parent = pending.pop(0)
        informed.add(parent.id)
        for child_id in view.dependants.get(parent.id, ()):
            child = moved.get(child_id) or view.jobs[child_id]
            if child.phase is not Phase.PENDING or parent.id not in child.waits_for:
                continue
            settled = _settled(view, child, parent, moved, informed)
            if settled.lost is not None:
                moved[child_id] = replace(child, phase=Phase.CANCELLED)
                facts.append(follow_no_more(child, settled.lost, by=by, at=at))
                pending.append(moved[child_id])
            elif changes := _to_wait_for(child, settled):
                moved[child_id] = patched(child, changes)
                facts.append(JobChanged(child_id, changes, at=at, by=by))
    return facts


def _settled(view: View, child: Job, parent: Job, moved: Mapping[str, Job], informed: Collection[str]) -> Settled:
    """Return the state of the dependencies of `child`, given `parent` as it is now.

    `moved` has other jobs that change in the same step; `informed` has those of them that the child already took into
    account.
    """
    clauses = clauses_of(child.spec.after)
    if not wait_for_ends_alone(clauses):
        known = [moved.get(one) or view.jobs.get(one) for one in child.waits_for]
        return settled_by(child, [one for one in known if one is not None])
    if not parent.phase.terminal:
        return Settled(child.waits_for)
    if parent.phase is not Phase.SUCCEEDED:
        for (term,) in clauses:
            if term.condition in (Condition.OK, Condition.CORR) and covers(term, child, parent):
                return Settled(lost=(term, parent))
    jobs = view.jobs
    return Settled(
        tuple(
            one
            for one in child.waits_for
            if one in jobs and jobs[one].phase not in TERMINAL_PHASES and one not in informed
        )
    )


def _to_wait_for(child: Job, settled: Settled) -> JobPatch:
    """Return the changed dependencies of a job that still waits; none while a long list has not become half as long."""
    left = settled.waits_for
    if wait_for_ends_alone(clauses_of(child.spec.after)) and len(child.waits_for) > LONG_WAIT:
        return {"waits_for": left} if 2 * len(left) <= len(child.waits_for) else {}
    conditions = conditions_to_keep(settled, child.spec.after) if left else ()
    changes = JobPatch()
    if left != child.waits_for:
        changes["waits_for"] = left
    if conditions != child.conditions:
        changes["conditions"] = conditions
    return changes


def follow_no_more(job: Job, lost: tuple[Dependency, Job], *, by: str, at: float) -> JobChanged:
    """Cancel a job whose awaited start or end of a parent can no longer come: PENDING -> CANCELLED."""
    return change(job, JobPatch(phase=Phase.CANCELLED, ended_at=at, reason=follows_no_more(lost)), by=by, at=at)


def follows_no_more(lost: tuple[Dependency, Job]) -> str:
    """Return why a job cannot start that waits for the start or end of a parent, if this can no longer come."""
    term, parent = lost
    which = "whose failure it was to follow" if term.condition is Condition.NOT_OK else "which it was to follow"
    return f"job {parent.id}, {which}, {_how_it_ended(parent.phase)}"


def _how_it_ended(phase: Phase) -> str:
    return {
        Phase.SUCCEEDED: "succeeded",
        Phase.FAILED: "failed",
        Phase.CANCELLED: "was cancelled",
        Phase.TIMED_OUT: "ran into its time limit",
        Phase.LOST: "was lost",
    }[phase]
