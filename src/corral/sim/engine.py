"""Discrete-event simulation over the production planner: jobs arrive, run for their time, and end.

Time goes from event to event. The planner gets the same facts that the ledger would write.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from types import MappingProxyType

from corral.core.lifecycle import ending, starting, stopping
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.devices.device import DeviceCondition, Node
from corral.core.model.errors import Refused
from corral.core.model.fact import (
    AllocationMade,
    ConditionObserved,
    Delta,
    Fact,
    JobSubmitted,
    NodeObserved,
    ServerPart,
    StartsPromised,
)
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Placement
from corral.core.model.placing.plan import Evict, Plan, Start
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.scheduling.planner import Planner
from corral.sim.faults.faults import Breakdown, Trouble
from corral.sim.reports.history import History, Run

Progress = Callable[[int, int], None]
"""Called often with the number of finished jobs, and of all jobs."""


def untold(done: int, total: int) -> None:
    """Ignore the progress of a simulation."""


Speed = Callable[[Placement], float]

NONE_RUN: Mapping[str, Placement] = MappingProxyType({})

ROUNDS = 1_000
"""A planner that still starts or evicts jobs after this many plans for one time will never stop."""


@dataclass(slots=True)
class SimulatedWork:
    """A job with facts that only the simulator knows: the amount of its work, and its speed on each device model.

    `amount` is in seconds at speed 1. The simulator updates `done`, and the times in Unix seconds.
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
        """The time from submission to the end, minus the time that it ran."""
        assert self.ended_at is not None, "the job has not ended"
        return self.ended_at - self.job.submitted_at - self.served_s


@dataclass(slots=True)
class _Run:
    """One attempt: its start, its allocation and its speed."""

    allocation: Allocation
    since: float
    speed: float


def inventory(nodes: Iterable[Node]) -> list[Delta]:
    """Return the facts for nodes whose devices are all readable, healthy and idle."""
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
    """One simulated cluster. While jobs wait, it also plans at multiples of `tick_s`, for policies with time slices.

    It runs from `begin` to `until` (Unix seconds), if they are given: earlier jobs arrive at the beginning, and jobs
    that have not ended by then stay as they are.
    """

    planner: Planner
    watches: Sequence[Callable[[float, Plan], None]] = ()
    tick_s: float | None = None
    breakdowns: Sequence[Breakdown] = ()
    history: History | None = None
    progress: Progress = untold
    begin: float = 0.0
    until: float = inf
    _works: dict[str, SimulatedWork] = field(default_factory=dict)
    _runs: dict[str, _Run] = field(default_factory=dict)
    _ends: list[tuple[float, int, str, int]] = field(default_factory=list)
    _troubles: list[Trouble] = field(default_factory=list)
    _waiting: int = 0

    def run(
        self,
        works: Sequence[SimulatedWork],
        *,
        until_ended: Iterable[str] | None = None,
        running: Mapping[str, Placement] = NONE_RUN,
    ) -> None:
        """Run these jobs, in order of submission, until all have ended, or until those named have.

        Those of `running` have these devices from the beginning, by id; they must be submitted by then.
        """
        arrivals = sorted(works, key=lambda work: (work.job.submitted_at, work.job.sequence))
        self._works = {work.job.id: work for work in arrivals}
        left = set(self._works if until_ended is None else until_ended)
        total = len(left)
        self._troubles = [trouble for one in self.breakdowns for trouble in one.troubles()]
        heapify(self._troubles)
        next_arrival, now = 0, self.begin
        while left:
            now = self._next_time(arrivals, next_arrival, now)
            if now > self.until:
                return
            deltas = self._break_and_repair(now)
            while self._ends and self._ends[0][0] <= now:
                _, _, job_id, attempt = heappop(self._ends)
                if self._works[job_id].runs == attempt and job_id in self._runs:
                    deltas += self._end(job_id, now)
                    left.discard(job_id)
            while next_arrival < len(arrivals) and arrivals[next_arrival].job.submitted_at <= now:
                job = arrivals[next_arrival].job
                deltas.append(JobSubmitted(job, at=now, by=ServerPart.SIMULATOR))
                next_arrival += 1
                self._waiting += 1
            self.planner.advance(deltas)
            for job_id, placement in running.items():
                self.planner.advance(self._start(Start(job_id, placement, "recorded"), now))
            running = NONE_RUN
            self._decide(now)
            self.progress(total - len(left), total)
            if self.history is not None:
                self.history.note(now, (run.allocation for run in self._runs.values()), self._waiting)

    def _next_time(self, arrivals: Sequence[SimulatedWork], next_arrival: int, now: float) -> float:
        """Return the time of the next arrival, end or tick."""
        times = []
        if next_arrival < len(arrivals):
            times.append(arrivals[next_arrival].job.submitted_at)
        while self._ends and self._works[self._ends[0][2]].runs != self._ends[0][3]:
            heappop(self._ends)
        if self._ends:
            times.append(self._ends[0][0])
        if self._troubles:
            times.append(self._troubles[0].at)
        if self.tick_s is not None and self._waiting:
            times.append((now // self.tick_s + 1) * self.tick_s)
        if not times:
            raise Refused(f"{self._waiting} jobs wait for more than this cluster has; the simulation cannot end")
        return max(now, min(times))

    def _break_and_repair(self, now: float) -> list[Delta]:
        """Let devices fail or recover. A job on a failed device loses its progress and waits again."""
        deltas: list[Delta] = []
        while self._troubles and self._troubles[0].at <= now:
            trouble = heappop(self._troubles)
            deltas.append(ConditionObserved(DeviceCondition(trouble.uuid, unhealthy=trouble.words)))
            if trouble.sick:
                for job_id, run in sorted(self._runs.items()):
                    if trouble.uuid in run.allocation.placement.uuids:
                        deltas += self._put_back(job_id, now)
                        self._works[job_id].done = 0.0
        return deltas

    def _decide(self, now: float) -> None:
        """Plan and act until there is nothing more to do at this time."""
        for _ in range(ROUNDS):
            if not self._waiting:
                return
            plan = self.planner.plan(now)
            for watch in self.watches:
                watch(now, plan)
            deltas: list[Delta] = []
            for eviction in plan.evictions:
                deltas += self._put_back(eviction.job_id, now, eviction)
            for start in plan.starts:
                deltas += self._start(start, now)
            if plan.promises or self.planner.view.promises:
                deltas.append(StartsPromised(plan.promises))
            self.planner.advance(deltas)
            if not plan.evictions and (plan.complete or not plan.starts):
                return
        raise AssertionError(f"the planner does not stop planning changes at {now}: {plan}")

    def _start(self, start: Start, now: float) -> list[Fact]:
        work = self._works[start.job_id]
        work.runs += 1
        self._waiting -= 1
        speed = work.speed(start.placement)
        view = self.planner.view
        facts = starting.start_at_once(view, view.jobs[start.job_id], start.placement, by=ServerPart.SIMULATOR, at=now)
        (allocation,) = (fact.allocation for fact in facts if isinstance(fact, AllocationMade))
        self._runs[start.job_id] = _Run(allocation, now, speed)
        work.started_at = now if work.started_at is None else work.started_at
        ends_at = now + (work.amount - work.done) / speed
        heappush(self._ends, (ends_at, work.job.sequence, start.job_id, work.runs))
        return facts

    def _end(self, job_id: str, now: float) -> list[Fact]:
        work, run = self._works[job_id], self._leave(job_id, now)
        work.done = work.amount
        work.served_s += now - run.since
        work.ended_at = now
        if self.history is not None:
            self.history.waits.setdefault(work.job.spec.user, []).append(work.wait_s)
        view = self.planner.view
        report = LaunchReport(
            run.allocation.id, LaunchPhase.EXITED, run.since, now, exit_code=0, ending=Phase.SUCCEEDED
        )
        return ending.ended(view, view.jobs[job_id], report, by=ServerPart.SIMULATOR, at=now, backoff=Backoff())

    def _leave(self, job_id: str, now: float) -> _Run:
        run = self._runs.pop(job_id)
        if self.history is not None:
            self.history.runs.append(Run(run.allocation, run.since, now))
        return run

    def _put_back(self, job_id: str, now: float, eviction: Evict | None = None) -> list[Fact]:
        """Stop a job, for another or because its device failed; it keeps its progress, and waits again."""
        work, run = self._works[job_id], self._leave(job_id, now)
        work.done += (now - run.since) * run.speed
        work.served_s += now - run.since
        self._waiting += 1
        view, by = self.planner.view, ServerPart.SIMULATOR
        job = view.jobs[job_id]
        if eviction is not None:
            facts = stopping.evict(job, eviction, by=by, at=now)
        else:
            facts = stopping.stop(job, Phase.PENDING, "its device fell sick", by=by, at=now)
        return ending.stopped_at_once(view, job, facts, by=by, at=now)
