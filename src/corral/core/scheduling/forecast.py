"""Forecasts when each waiting job starts, by a simulation that plans again whenever a job is expected to end."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from corral.core.lifecycle import ending, starting, stopping
from corral.core.lifecycle.following import followers
from corral.core.lifecycle.phase_changes import change, give_back
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.fact import ServerPart, StartsPromised
from corral.core.model.jobs.job import Job, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Placement, Promise
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.fit import HOST_CAUSES, Cause, Misfit, could_use, fit, name_misfit
from corral.core.model.placing.plan import Evict, Plan, Start, Wait, WaitReason, group_of
from corral.core.model.placing.state import NodeState, node_state
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.promising.backfill import MOMENT_S, certainty
from corral.core.scheduling.promising.run_time import expected_end, run_estimate_s
from corral.core.scheduling.queueing.barred_nodes import barred_to, kept_off
from corral.core.scheduling.queueing.pools import closed_pools_of
from corral.core.scheduling.state.neighbours import keeps_apart, neighbours_in
from corral.core.scheduling.state.packed_request import request_of

LOOKS = 3_000
"""The most looks at jobs in one forecast, which take 0.1 to 0.5 s. Starts beyond them stay unknown."""

_PROMISES_A_LOOK = 50
"""Finding a promised start takes longer the more promises there are: with this many, as long as a look at a job."""

MakePlanner = Callable[[View], Planner]


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """The time (Unix seconds) and place of a job's expected start, or the job of unknown end on which the start
    depends.

    Attributes:
        depends_on: the id of a running job without time limit or history that holds what this one needs.
        certainty: whether the start is promised, only expected, or unforeseen; None if no start can be foreseen.
        evictions: the evictions that let it start.
        at_once: whether the job starts now, without any eviction.
    """

    start_at: float | None = None
    depends_on: str | None = None
    placement: Placement | None = None
    certainty: Certainty | None = None
    evictions: tuple[Evict, ...] = ()
    at_once: bool = False


_NONE = ExpectedStart()
_UNFORESEEN = ExpectedStart(certainty=Certainty.UNFORESEEN)


@dataclass(frozen=True, slots=True)
class Foresight:
    """The expected starts of all waiting jobs at one time.

    Attributes:
        starts: the expected starts, by job id. Jobs without an expected start are left out.
        complete: whether every start that can be foreseen is in `starts`. If False, the forecast reached its bound, and
            a job without a start may start later.
        depends_on: returns the job of unknown end on which the start of a job depends. It examines every device.
    """

    starts: Mapping[str, ExpectedStart]
    complete: bool
    depends_on: Callable[[str], str | None] = field(repr=False)

    def of(self, job_id: str, *, held: bool) -> ExpectedStart:
        """The expected start of a waiting job. It does not say what a job without an expected start depends on."""
        return self.starts.get(job_id, _NONE if held or self.complete else _UNFORESEEN)

    def in_full(self, job_id: str, *, held: bool) -> ExpectedStart:
        """The expected start of a waiting job, or the job that its start depends on."""
        told = self.of(job_id, held=held)
        return ExpectedStart(depends_on=self.depends_on(job_id)) if told == _NONE else told


def expected_starts(
    view: View, now: float, wanted: Collection[str], *, planner: MakePlanner = Planner, looks: int = LOOKS
) -> dict[str, ExpectedStart]:
    """The expected starts of the wanted jobs, if nothing else is submitted and every job runs as long as estimated.

    For a job that is being evicted, the start is the time at which it starts again. If a start is unknown, the result
    names the job that it depends on, which has neither a time limit nor earlier runs. A job on hold has neither. A job
    too far back in its queue to be reached within `looks` is unforeseen. Use this for few jobs, because finding what a
    job depends on examines every device. Use `foresee` for thousands.
    """
    foresight = _Future(view, now, planner(view)).foresight(wanted, looks)
    held = {job_id for job_id in wanted if job_id in view.jobs and view.jobs[job_id].held}
    return {job_id: foresight.in_full(job_id, held=job_id in held) for job_id in wanted}


def foresee(view: View, now: float, *, planner: MakePlanner = Planner, looks: int = LOOKS) -> Foresight:
    """The expected starts of all waiting jobs, as `expected_starts` describes them, as far as `looks` allows."""
    waiting = [job.id for job in view.jobs.values() if job.phase is Phase.PENDING]
    return _Future(view, now, planner(view)).foresight(waiting, looks)


class _Future:
    """A simulated cluster that goes from one expected end of a job to the next."""

    def __init__(self, view: View, now: float, planner: Planner) -> None:
        self._planner = planner
        self._now = now
        self._events: list[tuple[float, int, str, str | None]] = []
        self.starts: dict[str, ExpectedStart] = {}
        self.looks = 0
        self._waits: Sequence[Wait] = ()
        self._evictions: dict[str, list[Evict]] = {}
        self._promises: dict[str, Promise] | None = None
        for job in view.jobs.values():
            allocation = view.allocations.get(job.allocation_id or "")
            if job.phase is Phase.PENDING and job.eligible_at is not None and job.eligible_at > now:
                heappush(self._events, (job.eligible_at, job.sequence, job.id, None))
            elif allocation is not None:
                self._schedule_end(expected_end(job, allocation, now, view.durations), job, allocation)

    def foresight(self, wanted: Collection[str], looks: int) -> Foresight:
        """Simulate until all wanted jobs have started, nothing more happens, or the number of looks is reached."""
        missing, more = set(wanted), True
        while missing and more and self.looks < looks:
            missing -= self.decide()
            more = bool(missing) and self.advance_to_next_event()
        ids = dict.fromkeys((*self.starts, *(self._promises or ())))
        starts = {job_id: one for job_id in ids if (one := self.start_of(job_id)) is not None}
        return Foresight(starts, complete=not (missing and more), depends_on=self.depends_on)

    def decide(self) -> set[str]:
        """Plan and start jobs until nothing more starts at this time. Return the ids of the started jobs."""
        started: set[str] = set()
        while True:
            plan = self._planner.plan(self._now)
            self._waits = plan.waits
            promises = len(plan.future_starts)
            self.looks += 1 + len(plan.starts) + len(plan.waits) + promises + promises**2 // _PROMISES_A_LOOK
            for eviction in plan.evictions:
                self._evict(eviction)
            for start in plan.starts:
                started.add(start.job_id)
                self._start(start)
            if plan.promises or self._planner.view.promises:
                self._planner.advance([StartsPromised(plan.promises)])
            settled = not plan.evictions and (plan.complete or not plan.starts)
            if settled or self.looks > 2 * LOOKS:
                self._note_promises(plan)
                return started

    def start_of(self, job_id: str) -> ExpectedStart | None:
        """The start of a job: its promise, unless the simulation differs from it; None if it does not start."""
        expected, promise = self.starts.get(job_id), (self._promises or {}).get(job_id)
        if promise is None or (expected is not None and abs((expected.start_at or 0.0) - promise.start_at) > MOMENT_S):
            return expected
        placement = promise.placement if expected is None else expected.placement
        return ExpectedStart(promise.start_at, placement=placement, certainty=Certainty.PROMISE)

    def _note_promises(self, plan: Plan) -> None:
        """Remember the certain promises of the first plan, which is the plan for the present."""
        if self._promises is None:
            waiting = {wait.job_id for wait in plan.waits if wait.expected_start is not None and wait.keeps_turn}
            self._promises = {
                one.job_id: one
                for one in plan.future_starts
                if one.job_id in waiting and certainty(self._planner.view, one, self._now) is Certainty.PROMISE
            }

    def advance_to_next_event(self) -> bool:
        """Advance to the next time at which a job ends or becomes eligible. Return False if there is none."""
        if not self._events:
            return False
        self._now = max(self._now, self._events[0][0])
        while self._events and self._events[0][0] <= self._now:
            _, _, job_id, allocation_id = heappop(self._events)
            job = self._planner.view.jobs.get(job_id)
            if job is not None and allocation_id is not None and job.allocation_id == allocation_id:
                self._end(job)
        return True

    def depends_on(self, job_id: str) -> str | None:
        """The oldest job of unknown end that holds what this job needs, or that it waits for; None if there is none.

        If the job waits behind another, the result is what blocks that one. A job that waits for a quota has none:
        the text of the quota says enough.
        """
        view = self._planner.view
        job = view.jobs.get(job_id)
        if job is None or job.held:
            return None
        if job.waits_for:
            return next((parent for parent in job.waits_for if parent in view.jobs), None)
        running = [(a, view.jobs[a.job_id]) for a in view.allocations.values() if a.job_id in view.jobs]
        of_array = [one for _, one in running if job.array_id is not None and one.array_id == job.array_id]
        if of_array and job.array_limit is not None and len(of_array) >= job.array_limit:
            # The limit of the job's own array blocks it, whatever becomes free elsewhere.
            return min(of_array, key=lambda one: one.sequence).id
        wait = self._wait_of(job)
        if wait is not None and wait.reason in (WaitReason.LIMIT, WaitReason.POWER_BUDGET):
            return None
        ahead = view.jobs.get((wait and wait.behind) or "")
        held_up = job if ahead is None or ahead.phase is not Phase.PENDING else ahead
        barred = barred_to(view, held_up.spec.user, held_up.spec.container)
        request = kept_off(request_of(view, held_up), barred)
        in_the_way = jobs_in_the_way(view, request, closed_pools_of(view, job.spec.user, job.spec.project))
        return in_the_way[0].id if in_the_way else None

    def _schedule_end(self, end: float, job: Job, allocation: Allocation) -> None:
        """Add events for the end of the job, and for the times from which it may be evicted."""
        if end < inf:
            heappush(self._events, (end, job.sequence, job.id, allocation.id))
        for at_time in self._planner.evictable_at(job, allocation.created_at):
            if self._now < at_time < end:
                heappush(self._events, (at_time, job.sequence, job.id, None))

    def _start(self, start: Start) -> None:
        job = self._planner.view.jobs[start.job_id]
        run_s = run_estimate_s(job, self._planner.view.durations)
        evictions = tuple(self._evictions.pop(job.id, ()))
        at_once = self._promises is None and not evictions
        expected = ExpectedStart(self._now, None, start.placement, Certainty.EXPECTATION, evictions, at_once)
        self.starts.setdefault(job.id, expected)
        view = self._planner.view
        self._planner.advance(starting.start_at_once(view, job, start.placement, by=ServerPart.SCHEDULER, at=self._now))
        allocation = self._planner.view.allocations[self._planner.view.jobs[job.id].allocation_id or ""]
        self._schedule_end(inf if run_s is None else self._now + run_s, job, allocation)

    def _end(self, job: Job) -> None:
        """Apply the end of a launch: the job has ended, or waits again if it was told to stop for another."""
        view, by, at = self._planner.view, ServerPart.SCHEDULER, self._now
        if job.phase is Phase.STOPPING:
            report = LaunchReport(job.allocation_id or "", LaunchPhase.EXITED, ended_at=at, ending=Phase.CANCELLED)
            facts = ending.ended(view, job, report, by=by, at=at, backoff=Backoff())
        else:
            # The change has no end time: otherwise a run time would be learned that was never measured.
            done = change(job, {"phase": Phase.SUCCEEDED, "allocation_id": None}, by=by, at=at)
            freed = give_back(view, job, by=by, at=at)
            facts = [done, *freed, *followers(view, job, Phase.SUCCEEDED, by=by, at=at)]
        self._planner.advance(facts)

    def _wait_of(self, job: Job) -> Wait | None:
        """The entry of the last plan for the job, or for a job of its group; None if there is none."""
        view = self._planner.view
        for wait in self._waits:
            other = view.jobs.get(wait.job_id)
            if other is not None and (other.id == job.id or group_of(other) == group_of(job)):
                return wait
        return None

    def _evict(self, eviction: Evict) -> None:
        """Evict a job: at once, or after the time it has to save its work."""
        self._evictions.setdefault(eviction.for_job_id, []).append(eviction)
        view, by = self._planner.view, ServerPart.SCHEDULER
        job = view.jobs[eviction.job_id]
        facts = stopping.evict(job, eviction, by=by, at=self._now)
        grace_s = job.spec.checkpoint_grace_s if job.spec.checkpoint_signal is not None else 0.0
        if grace_s <= 0 or job.allocation_id is None:
            self._planner.advance(ending.stopped_at_once(view, job, facts, by=by, at=self._now))
            return
        heappush(self._events, (self._now + grace_s, job.sequence, job.id, job.allocation_id))
        self._planner.advance(facts)


def jobs_in_the_way(view: View, request: Request, closed_pools: Sequence[str] = ()) -> list[Job]:
    """The jobs that must end before a node can take the request, the oldest first; empty if no end of a job helps.

    Nodes that could never serve the request do not count. Devices of `closed_pools` do not count either.
    """
    found = {job.id: job for name in view.nodes for job in _on_node(view, request, name, closed_pools)}
    return sorted(found.values(), key=lambda job: job.sequence)


def _on_node(view: View, request: Request, name: str, closed_pools: Sequence[str]) -> list[Job]:
    """The blocking jobs on one node; empty if the node could serve the request now, or never."""
    state = node_state(view, name)
    if name_misfit(request, name, state.labels) is not None:
        return []
    held = [view.allocations[one] for one in view.residents.get(name, ())]
    jobs = [(one, view.jobs[one.job_id]) for one in held if one.job_id in view.jobs]
    apart = [job for _, job in jobs if keeps_apart(request, job)]
    barred = neighbours_in(view).misfit(request, name)
    if barred is not None and not (barred.cause is Cause.ANTI_AFFINITY and barred.eviction_helps):
        return []
    useful = _useful(view, request, name, state, closed_pools)
    lacks = fit(request, state, usable=useful)
    if not isinstance(lacks, Misfit):
        if request.gang_size == 1:
            return apart
    elif lacks.never or not lacks.eviction_helps:
        return []
    elif lacks.cause in HOST_CAUSES:
        return [job for _, job in jobs]
    # A gang may need room for more members although one member fits.
    uuids = {view.nodes[name].devices[index].uuid for index in useful}
    return [job for one, job in jobs if job in apart or not uuids.isdisjoint(one.placement.uuids)]


def _useful(view: View, request: Request, name: str, state: NodeState, closed_pools: Sequence[str]) -> list[int]:
    """The node's devices that the request could have if they were free."""
    closed = {uuid for pool in closed_pools for uuid in view.set_apart.get(pool, {}).get(name, ())}
    return [
        index
        for index, device in enumerate(view.nodes[name].devices)
        if device.uuid not in closed and could_use(request, state.slots[index], usable=request.may_use(device))
    ]
