"""When each waiting job will start: the planner is asked, and asked again at each moment at which a job should end."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf

from corral.model.allocation import Allocation, Placement, Reserve
from corral.model.certainty import Certainty
from corral.model.dependency import conditions_to_keep, settled_by
from corral.model.eviction import Eviction
from corral.model.fact import AllocationEnded, AllocationMade, Delta, JobChanged, ServerPart, StartsPromised
from corral.model.job import Job, Phase
from corral.model.job_patch import JobPatch
from corral.model.plan import Evict, Plan, Start
from corral.model.view import View
from corral.scheduling.placing.feasibility import useful_devices
from corral.scheduling.planner import Planner
from corral.scheduling.promising.backfill import MOMENT_S, certainty
from corral.scheduling.promising.run_time import expected_end, run_estimate_s

LOOKS = 3_000
"""So often a job is looked at, over all moments; what would need more is not told. About 0.1 s."""

MakePlanner = Callable[[View], Planner]


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """When a job will start (Unix seconds) and on what, or the job without an end in sight that it depends on.

    `certainty` says what that start is, None where there is none. `evictions` are what makes room for it then.
    `at_once` is one for which nothing else has to happen.
    """

    start_at: float | None = None
    depends_on: str | None = None
    placement: Placement | None = None
    certainty: Certainty | None = None
    evictions: tuple[Evict, ...] = ()
    at_once: bool = False


def expected_starts(
    view: View, now: float, wanted: Collection[str], *, planner: MakePlanner = Planner, looks: int = LOOKS
) -> dict[str, ExpectedStart]:
    """The expected starts of the wanted jobs, if nothing else is submitted and every job takes as long as estimated.

    One that is being stopped to make room is told when it starts again. A job that nobody can tell of is in the answer
    with the job that it depends on: one that neither has a time limit nor a history. One on hold, or so far back that
    reaching it takes more than `looks`, has neither.
    """
    future = _Future(view, now, planner(view))
    missing = set(wanted)
    while future.looks < looks:
        missing -= future.decide()
        if not missing or not future.head_started():
            break
    starts = {job_id: one for job_id in wanted if (one := future.start_of(job_id)) is not None}
    unknown = {} if future.more else {job_id: future.depends_on(job_id) for job_id in sorted(missing)}
    return {job_id: starts.get(job_id) or ExpectedStart(depends_on=unknown.get(job_id)) for job_id in wanted}


class _Future:
    """A copy of the cluster that is led on from end to end."""

    def __init__(self, view: View, now: float, planner: Planner) -> None:
        self._planner = planner
        self._now = now
        self._moments: list[tuple[float, int, str, str | None]] = []
        self.starts: dict[str, ExpectedStart] = {}
        self.looks = 0
        self._attempts = 0
        self._evictions: dict[str, list[Evict]] = {}
        self._promises: dict[str, Reserve] | None = None
        for job in view.jobs.values():
            allocation = view.allocations.get(job.allocation_id or "")
            if job.phase is Phase.PENDING and job.eligible_at is not None and job.eligible_at > now:
                heappush(self._moments, (job.eligible_at, job.sequence, job.id, None))
            elif allocation is not None:
                self._expect(expected_end(job, allocation, now, view.durations), job, allocation)

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
            for eviction in plan.evictions:
                self._evict(eviction)
            for start in plan.starts:
                started.add(start.job_id)
                self._start(start)
            if plan.promises or self._planner.view.promises:
                self._planner.advance([StartsPromised(plan.promises)])
            at_rest = not plan.evictions and (plan.complete or not plan.starts)
            if at_rest or self.looks > 2 * LOOKS:
                self._note_promises(plan)
                return started

    def start_of(self, job_id: str) -> ExpectedStart | None:
        """When and how a job starts: as it was promised, unless something else is to be expected; None: it does not."""
        expected, promise = self.starts.get(job_id), (self._promises or {}).get(job_id)
        if promise is None or (expected is not None and abs((expected.start_at or 0.0) - promise.start_at) > MOMENT_S):
            return expected
        placement = promise.placement if expected is None else expected.placement
        return ExpectedStart(promise.start_at, placement=placement, certainty=Certainty.PROMISE)

    def _note_promises(self, plan: Plan) -> None:
        """What was promised when the future was now."""
        if self._promises is None:
            waiting = {hold.job_id for hold in plan.holds if hold.expected_start is not None and hold.keeps_turn}
            self._promises = {
                one.job_id: one
                for one in plan.reservations
                if one.job_id in waiting and certainty(self._planner.view, one, self._now) is Certainty.PROMISE
            }

    def head_started(self) -> bool:
        """Go to the next moment at which something ends or a pause is over; False when there is none."""
        if not self._moments:
            return False
        self._now = max(self._now, self._moments[0][0])
        while self._moments and self._moments[0][0] <= self._now:
            _, _, job_id, allocation_id = heappop(self._moments)
            job = self._planner.view.jobs.get(job_id)
            if job is not None and allocation_id is not None and job.allocation_id == allocation_id:
                if job.phase is Phase.STOPPING and job.stop_reason is Phase.PENDING:
                    self._put_back(job_id)
                else:
                    self._planner.advance(self._end(job, allocation_id))
        return True

    def depends_on(self, job_id: str) -> str | None:
        """The first of those without an end in sight that hold what the job could use, or that it waits for."""
        view = self._planner.view
        job = view.jobs.get(job_id)
        if job is None or job.held:
            return None
        if job.waits_for:
            return next((parent for parent in job.waits_for if parent in view.jobs), None)
        useful = useful_devices(view, job.spec.request)
        running = [(a, view.jobs[a.job_id]) for a in view.allocations.values() if a.job_id in view.jobs]
        of_array = [one for _, one in running if job.array_id is not None and one.array_id == job.array_id]
        if of_array and job.array_limit is not None and len(of_array) >= job.array_limit:
            # Whatever becomes free elsewhere, its own array lets no more of it run.
            return min(of_array, key=lambda one: one.sequence).id
        holding = [
            one
            for allocation, one in running
            if not job.spec.request.devices or any(uuid in useful for uuid in allocation.placement.uuids)
        ]
        return min(holding, key=lambda one: one.sequence).id if holding else None

    def _expect(self, end: float, job: Job, allocation: Allocation) -> None:
        """Go to the moment at which it ends, and to those at which others may have it stopped."""
        if end < inf:
            heappush(self._moments, (end, job.sequence, job.id, allocation.id))
        for moment in self._planner.evictable_at(job, allocation.created_at):
            if self._now < moment < end:
                heappush(self._moments, (moment, job.sequence, job.id, None))

    def _start(self, start: Start) -> None:
        job = self._planner.view.jobs[start.job_id]
        run_s = run_estimate_s(job, self._planner.view.durations)
        evictions = tuple(self._evictions.pop(job.id, ()))
        at_once = self._promises is None and not evictions
        expected = ExpectedStart(self._now, None, start.placement, Certainty.EXPECTATION, evictions, at_once)
        self.starts.setdefault(job.id, expected)
        self._attempts += 1
        allocation = Allocation(
            f"{job.id}.foreseen.{self._attempts}", job.id, job.spec.user, start.placement, self._now
        )
        self._expect(inf if run_s is None else self._now + run_s, job, allocation)
        changes = JobPatch(phase=Phase.RUNNING, started_at=self._now, allocation_id=allocation.id)
        followers = self._followers(self._planner.view, replace(job, phase=Phase.RUNNING, started_at=self._now))
        self._planner.advance(
            [
                JobChanged(job.id, changes, at=self._now, by=ServerPart.SCHEDULER),
                AllocationMade(allocation, at=self._now, by=ServerPart.SCHEDULER),
                *followers,
            ]
        )

    def _end(self, job: Job, allocation_id: str) -> list[Delta]:
        view = self._planner.view
        deltas = self._followers(view, replace(job, phase=Phase.SUCCEEDED))
        deltas.append(
            JobChanged(job.id, {"phase": Phase.SUCCEEDED, "allocation_id": None}, at=self._now, by=ServerPart.SCHEDULER)
        )
        return [*deltas, AllocationEnded(allocation_id, job.id, at=self._now, by=ServerPart.SCHEDULER)]

    def _followers(self, view: View, parent: Job) -> list[Delta]:
        """What becomes of those that wait for a job that has started, or ended well; who waits in vain is held."""
        deltas: list[Delta] = []
        for child_id in view.dependants.get(parent.id, ()):
            child = view.jobs[child_id]
            known = [parent if one == parent.id else view.jobs[one] for one in child.waits_for if one in view.jobs]
            settled = settled_by(child, known)
            changes: JobPatch = {"held": True} if settled.lost is not None else {"waits_for": settled.waits_for}
            kept = conditions_to_keep(settled, child.spec.after)
            deltas.append(JobChanged(child_id, {**changes, "conditions": kept}, at=self._now, by=ServerPart.SCHEDULER))
        return deltas

    def _evict(self, eviction: Evict) -> None:
        """The job is told to make room for another, at once or when it has had time to save what it has."""
        self._evictions.setdefault(eviction.for_job_id, []).append(eviction)
        job = self._planner.view.jobs[eviction.job_id]
        grace_s = job.spec.checkpoint_grace_s if job.spec.checkpoint_signal is not None else 0.0
        if grace_s <= 0 or job.allocation_id is None:
            self._put_back(job.id)
            return
        heappush(self._moments, (self._now + grace_s, job.sequence, job.id, job.allocation_id))
        told = Eviction(eviction.rule, eviction.for_job_id, "", self._now, f"{job.id}.{job.launches}", saves=True)
        changes = JobPatch(phase=Phase.STOPPING, stop_reason=Phase.PENDING, eviction=told)
        self._planner.advance([JobChanged(job.id, changes, at=self._now, by=ServerPart.SCHEDULER)])

    def _put_back(self, job_id: str) -> None:
        """The job makes room for another, and waits again."""
        job = self._planner.view.jobs[job_id]
        changes = JobPatch(phase=Phase.PENDING, started_at=None, allocation_id=None, stop_reason=None)
        deltas: list[Delta] = [JobChanged(job_id, changes, at=self._now, by=ServerPart.SCHEDULER)]
        if job.allocation_id is not None:
            deltas.append(AllocationEnded(job.allocation_id, job_id, at=self._now, by=ServerPart.SCHEDULER))
        self._planner.advance(deltas)
