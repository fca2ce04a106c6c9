"""Converts a plan to facts: each start is tested again, with the same fit test, against the newest view."""

from collections.abc import Callable, Sequence

from corral.core.lifecycle import starting, stopping
from corral.core.lifecycle.members import ranked
from corral.core.model.devices.means import Enforcement
from corral.core.model.fact import Fact, ServerPart
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import GpuInfo, Placement
from corral.core.model.placing.fit import Misfit
from corral.core.model.placing.plan import Evict, Start
from corral.core.model.view import View, ViewDraft
from corral.core.ports.ledger import Decided
from corral.core.scheduling.queueing.pools import set_apart_from

Verify = Callable[[View, Start], Misfit | None]
Describe = Callable[[View, Start], GpuInfo | None]
Enforce = Callable[[Job, Placement, View], Enforcement | None]
Waited = Callable[[Job], tuple[tuple[str, float], ...]]


def commit_starts(
    view: View,
    starts: Sequence[Start],
    at: float,
    *,
    verify: Verify,
    describe: Describe,
    enforce: Enforce,
    waited: Waited,
) -> Decided[tuple[str, ...]]:
    """Return the facts of the starts that still fit, and the ids of their allocations. The other starts are dropped."""
    draft = ViewDraft(view)
    facts: list[Fact] = []
    allocation_ids: list[str] = []
    for start in starts:
        job = draft.view.jobs.get(start.job_id)
        if job is None or not _may_start(job, start) or verify(draft.view, start) is not None:
            continue
        if set_apart_from(draft.view, job.spec.user, job.spec.project, start.placement) is not None:
            continue  # a node has joined, or the settings have changed, since the decision
        placement = ranked(start.placement, draft.view.nodes.values())
        enforcement = enforce(job, placement, draft.view)
        step = starting.start(
            job,
            placement,
            by=ServerPart.SCHEDULER,
            at=at,
            gpu_info=describe(draft.view, start),
            waited=waited(job),
            enforcement=enforcement,
        )
        draft.apply(step)
        facts.extend(step)
        allocation_ids.append(starting.next_allocation_id(job))
    return Decided(tuple(facts), tuple(allocation_ids))


def _may_start(job: Job, start: Start) -> bool:
    decided_on = start.spec is None or start.spec is job.spec or start.spec == job.spec
    return decided_on and job.phase is Phase.PENDING and not job.held and not job.waits_for


def commit_evictions(view: View, evictions: Sequence[Evict], at: float) -> Decided[tuple[str, ...]]:
    """Return the facts of the evictions whose jobs are still live, and the ids of the allocations to stop."""
    facts: list[Fact] = []
    to_stop: list[str] = []
    for eviction in evictions:
        job = view.jobs.get(eviction.job_id)
        step = [] if job is None else stopping.evict(job, eviction, by=ServerPart.SCHEDULER, at=at)
        if job is not None and step and job.allocation_id is not None:
            facts.extend(step)
            to_stop.append(job.allocation_id)
    return Decided(tuple(facts), tuple(to_stop))
