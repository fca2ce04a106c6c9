"""Discrete events over the production planner: jobs come, run for as long as they take where they were put, and end.

Time is set by hand, from event to event. What the planner is told are the same facts that the ledger would write.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from corral.model.allocation import Allocation, Placement
from corral.model.device import DeviceCondition, Node
from corral.model.fact import (
    AllocationEnded,
    AllocationMade,
    ConditionObserved,
    Delta,
    JobChanged,
    JobSubmitted,
    NodeObserved,
    StartsPromised,
)
from corral.model.job import Job, Phase
from corral.model.plan import Evict, Plan, Start
from corral.scheduling.planner import Planner

Speed = Callable[[Placement], float]


@dataclass(slots=True)
class Work:
    """A job with what only the simulator knows: how much there is to do, and how fast it goes where.

    `amount` is in seconds at speed 1. The simulator keeps `done`, and the times in Unix seconds.
    """

    job: Job
    amount: float
    speed: Speed = lambda _: 1.0
    done: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    runs: int = 0
    served_s: float = 0.0

    @property
    def wait_s(self) -> float:
        """From submission to the end, less the time that it ran."""
        assert self.ended_at is not None, "the job has not ended"
        return self.ended_at - self.job.submitted_at - self.served_s


@dataclass(slots=True)
class _Run:
    """One attempt: since when, on what, how fast."""

    allocation: Allocation
    since: float
    speed: float


def inventory(nodes: Iterable[Node]) -> list[Delta]:
    """Nodes whose devices are all read, well and idle."""
    deltas: list[Delta] = []
    for node in nodes:
        deltas.append(NodeObserved(node))
        deltas.extend(
            ConditionObserved(DeviceCondition(device.uuid, memory_free_mib=device.memory_mib, utilization_pct=0))
            for device in node.devices
        )
    return deltas


@dataclass(slots=True)
class Engine:
    """One simulated cluster. `tick_s` plans at its multiples too while anybody waits, for policies that share time."""

    planner: Planner
    watches: Sequence[Callable[[float, Plan], None]] = ()
    tick_s: float | None = None
    _works: dict[str, Work] = field(default_factory=dict)
    _runs: dict[str, _Run] = field(default_factory=dict)
    _ends: list[tuple[float, int, str, int]] = field(default_factory=list)
    _waiting: int = 0

    def run(self, works: Sequence[Work], *, until_ended: Iterable[str] | None = None) -> None:
        """Run all of these jobs, in order of submission, to their end; or until those named have ended."""
        arrivals = sorted(works, key=lambda work: (work.job.submitted_at, work.job.sequence))
        self._works = {work.job.id: work for work in arrivals}
        left = set(self._works if until_ended is None else until_ended)
        next_arrival, now = 0, 0.0
        while left:
            now = self._next_time(arrivals, next_arrival, now)
            deltas: list[Delta] = []
            while self._ends and self._ends[0][0] <= now:
                _, _, job_id, attempt = heappop(self._ends)
                if self._works[job_id].runs == attempt and job_id in self._runs:
                    deltas += self._end(job_id, now)
                    left.discard(job_id)
            while next_arrival < len(arrivals) and arrivals[next_arrival].job.submitted_at <= now:
                job = arrivals[next_arrival].job
                deltas.append(JobSubmitted(job, now))
                next_arrival += 1
                self._waiting += 1
            self.planner.advance(deltas)
            self._decide(now)

    def _next_time(self, arrivals: Sequence[Work], next_arrival: int, now: float) -> float:
        """The next arrival, end or tick."""
        times = []
        if next_arrival < len(arrivals):
            times.append(arrivals[next_arrival].job.submitted_at)
        while self._ends and self._works[self._ends[0][2]].runs != self._ends[0][3]:
            heappop(self._ends)
        if self._ends:
            times.append(self._ends[0][0])
        if self.tick_s is not None and self._waiting:
            times.append((now // self.tick_s + 1) * self.tick_s)
        assert times, "jobs wait, and nothing that could start them will ever happen"
        return max(now, min(times))

    def _decide(self, now: float) -> None:
        """Plan and act until the plan has nothing more to do at this moment."""
        while self._waiting:
            plan = self.planner.plan(now)
            for watch in self.watches:
                watch(now, plan)
            deltas: list[Delta] = []
            for eviction in plan.evictions:
                deltas += self._evict(eviction, now)
            for start in plan.starts:
                deltas += self._start(start, now)
            if plan.reservations or self.planner.view.promises:
                deltas.append(StartsPromised(plan.reservations))
            self.planner.advance(deltas)
            if not plan.evictions and plan.complete:
                return

    def _start(self, start: Start, now: float) -> list[Delta]:
        work = self._works[start.job_id]
        work.runs += 1
        self._waiting -= 1
        speed = work.speed(start.placement)
        allocation = Allocation(f"{start.job_id}.{work.runs}", start.job_id, work.job.spec.user, start.placement, now)
        self._runs[start.job_id] = _Run(allocation, now, speed)
        work.started_at = now if work.started_at is None else work.started_at
        ends_at = now + (work.amount - work.done) / speed
        heappush(self._ends, (ends_at, work.job.sequence, start.job_id, work.runs))
        changes = {
            "phase": Phase.RUNNING,
            "started_at": now,
            "allocation_id": allocation.id,
            "attempts": work.runs,
            "devices": start.placement.uuids,
        }
        return [JobChanged(start.job_id, changes, now), AllocationMade(allocation, now)]

    def _end(self, job_id: str, now: float) -> list[Delta]:
        work, run = self._works[job_id], self._runs.pop(job_id)
        work.done = work.amount
        work.served_s += now - run.since
        work.ended_at = now
        changes = {"phase": Phase.SUCCEEDED, "ended_at": now, "allocation_id": None, "exit_code": 0}
        return [JobChanged(job_id, changes, now), AllocationEnded(run.allocation.id, job_id, now)]

    def _evict(self, eviction: Evict, now: float) -> list[Delta]:
        work, run = self._works[eviction.job_id], self._runs.pop(eviction.job_id)
        work.done += (now - run.since) * run.speed
        work.served_s += now - run.since
        self._waiting += 1
        changes = {"phase": Phase.PENDING, "started_at": None, "allocation_id": None}
        return [
            JobChanged(eviction.job_id, changes, now),
            AllocationEnded(run.allocation.id, eviction.job_id, now),
        ]
