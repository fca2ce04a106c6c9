"""When each waiting job will start: the planner is asked, and asked again at each moment at which a job should end."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from corral.model.allocation import Allocation, Placement
from corral.model.fact import AllocationEnded, AllocationMade, Delta, JobChanged
from corral.model.job import Job, Phase
from corral.model.plan import Start
from corral.model.view import View
from corral.scheduling.estimate import expected_end, run_estimate_s
from corral.scheduling.feasible import useful_devices
from corral.scheduling.planner import Planner

LOOKS = 3_000
"""So often a job is looked at, over all moments; what would need more is not told. About 0.1 s."""

MakePlanner = Callable[[View], Planner]


@dataclass(frozen=True, slots=True)
class Expected:
    """When a job will start (Unix seconds) and on what, or the job without an end in sight that it depends on."""

    start_at: float | None = None
    depends_on: str | None = None
    placement: Placement | None = None


def foresee(
    view: View, now: float, wanted: Collection[str], *, planner: MakePlanner = Planner, looks: int = LOOKS
) -> dict[str, Expected]:
    """The expected starts of the wanted jobs, if nothing else is submitted and every job takes as long as estimated.

    A job that nobody can tell of is in the answer with the job that it depends on: one that neither has a time limit
    nor a history. One on hold, or so far back that reaching it takes more than `looks`, has neither.
    """
    future = _Future(view, now, planner(view))
    missing = set(wanted)
    while future.looks < looks:
        missing -= future.decide()
        if not missing or not future.go_on():
            break
    starts = {job_id: future.starts[job_id] for job_id in wanted if job_id in future.starts}
    unknown = {} if future.more else {job_id: future.depends_on(job_id) for job_id in sorted(missing)}
    return {job_id: starts.get(job_id) or Expected(depends_on=unknown.get(job_id)) for job_id in wanted}


class _Future:
    """A copy of the cluster that is led on from end to end."""

    def __init__(self, view: View, now: float, planner: Planner) -> None:
        self._planner = planner
        self._now = now
        self._moments: list[tuple[float, int, str]] = []
        self.starts: dict[str, Expected] = {}
        self.looks = 0
        for job in view.jobs.values():
            allocation = view.allocations.get(job.allocation_id or "")
            if job.phase is Phase.PENDING and job.eligible_at is not None and job.eligible_at > now:
                heappush(self._moments, (job.eligible_at, job.sequence, ""))
            elif allocation is not None:
                self._expect(expected_end(job, allocation, now, view.durations), job)

    @property
    def more(self) -> bool:
        """Whether there are moments that were not looked at."""
        return bool(self._moments)

    def decide(self) -> set[str]:
        """Start whatever starts now; the ids."""
        started: set[str] = set()
        while True:
            plan = self._planner.plan(self._now)
            self.looks += 1 + len(plan.starts) + len(plan.holds)
            for start in plan.starts:
                started.add(start.job_id)
                self._start(start)
            if plan.complete or not plan.starts:
                return started

    def go_on(self) -> bool:
        """Go to the next moment at which something ends or a pause is over; False when there is none."""
        if not self._moments:
            return False
        self._now = max(self._now, self._moments[0][0])
        deltas: list[Delta] = []
        while self._moments and self._moments[0][0] <= self._now:
            job_id = heappop(self._moments)[2]
            if job_id:
                deltas += self._end(job_id)
        self._planner.advance(deltas)
        return True

    def depends_on(self, job_id: str) -> str | None:
        """The first of those without an end in sight that hold what the job could use, or that it waits for."""
        view = self._planner.view
        job = view.jobs.get(job_id)
        if job is None or job.held:
            return None
        if job.waits_for:
            return job.waits_for[0] if job.waits_for[0] in view.jobs else None
        useful = useful_devices(view, job.spec.request)
        holding = [
            view.jobs[allocation.job_id]
            for allocation in view.allocations.values()
            if allocation.job_id in view.jobs
            and (not job.spec.request.devices or any(uuid in useful for uuid in allocation.placement.uuids))
        ]
        return min(holding, key=lambda one: one.sequence).id if holding else None

    def _expect(self, end: float, job: Job) -> None:
        if end < inf:
            heappush(self._moments, (end, job.sequence, job.id))

    def _start(self, start: Start) -> None:
        job = self._planner.view.jobs[start.job_id]
        run_s = run_estimate_s(job, self._planner.view.durations)
        self.starts[job.id] = Expected(start_at=self._now, placement=start.placement)
        self._expect(inf if run_s is None else self._now + run_s, job)
        allocation = Allocation(f"{job.id}.foreseen", job.id, job.spec.user, start.placement, self._now)
        changes = {"phase": Phase.RUNNING, "started_at": self._now, "allocation_id": allocation.id}
        self._planner.advance([JobChanged(job.id, changes, self._now), AllocationMade(allocation, self._now)])

    def _end(self, job_id: str) -> list[Delta]:
        view = self._planner.view
        job = view.jobs[job_id]
        deltas: list[Delta] = [
            JobChanged(child, {"waits_for": tuple(p for p in view.jobs[child].waits_for if p != job_id)}, self._now)
            for child in view.dependants.get(job_id, ())
        ]
        deltas.append(JobChanged(job_id, {"phase": Phase.SUCCEEDED, "allocation_id": None}, self._now))
        if job.allocation_id is not None:
            deltas.append(AllocationEnded(job.allocation_id, job_id, self._now))
        return deltas
