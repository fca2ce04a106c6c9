"""What a journal has on record, as it went: the same plots as of what is simulated."""

from collections.abc import Callable, Sequence

from corral.model.allocation import Allocation
from corral.model.fact import AllocationEnded, AllocationMade, Fact, JobChanged, JobRequeued, JobSubmitted
from corral.model.job import Job, Phase
from corral.sim.history import History, Run
from corral.sim.journal import recorded_jobs, recorded_nodes


def record(facts: Sequence[Fact], history: History, *, group: Callable[[Job], str] = lambda job: job.spec.user) -> None:
    """Add what ran and waited by a journal's facts, in order. What had not ended is shown to the last of them.

    `group` says whose wait a job's is, its user's if nothing else.
    """
    history.name(recorded_nodes(facts))
    held: dict[str, tuple[Allocation, float]] = {}
    waiting: set[str] = set()
    now = 0.0
    for fact in facts:
        now = max(now, fact.at)
        match fact:
            case JobSubmitted(job=job) | JobRequeued(job=job):
                waiting.add(job.id)
            case JobChanged(job_id=job_id, changes=changes) if "phase" in changes:
                (waiting.add if changes["phase"] is Phase.PENDING else waiting.discard)(job_id)
            case AllocationMade(allocation=allocation):
                held[allocation.id] = allocation, now
            case AllocationEnded(allocation_id=allocation_id) if allocation_id in held:
                history.runs.append(Run(*held.pop(allocation_id), now))
            case _:
                continue
        history.note(now, (allocation for allocation, _ in held.values()), len(waiting))
    history.runs += [Run(allocation, since, now) for allocation, since in held.values()]
    for one in recorded_jobs(facts):
        wait_s = max(0.0, (one.started_at or 0.0) - one.job.submitted_at)
        history.waits.setdefault(group(one.job), []).append(wait_s)
