"""The recorded course of a journal, for the same plots as a simulation."""

from collections.abc import Callable, Sequence

from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    DevicesExchanged,
    Fact,
    JobChanged,
    JobRequeued,
    JobSubmitted,
)
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.sim.replays.journal import recorded_jobs, recorded_nodes
from corral.sim.reports.history import History, Run


def record(facts: Sequence[Fact], history: History, *, group: Callable[[Job], str] = lambda job: job.spec.user) -> None:
    """Add runs and waits from a journal's facts, in order. Unfinished ones are shown until the last fact.

    `group` returns the name under which a job's wait is shown, by default its user.
    """
    history.name(recorded_nodes(facts))
    live: dict[str, tuple[Allocation, float]] = {}
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
                live[allocation.id] = allocation, now
            case DevicesExchanged(allocation=allocation) if allocation.id in live:
                live[allocation.id] = allocation, live[allocation.id][1]
            case AllocationEnded(allocation_id=allocation_id) if allocation_id in live:
                history.runs.append(Run(*live.pop(allocation_id), now))
            case _:
                continue
        history.note(now, (allocation for allocation, _ in live.values()), len(waiting))
    history.runs += [Run(allocation, since, now) for allocation, since in live.values()]
    for one in recorded_jobs(facts):
        history.waits.setdefault(group(one.job), []).append(one.wait_s)
