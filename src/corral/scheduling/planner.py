"""The state kept between cycles: advanced by deltas, asked for plans. A warm planner and a cold one plan the same."""

from collections.abc import Iterable

from corral.model.fact import Delta, JobChanged, JobRequeued, JobSubmitted
from corral.model.job import Job, JobKind, Phase
from corral.model.plan import Plan
from corral.model.view import View, ViewDraft
from corral.scheduling import choose
from corral.scheduling.admit import Limits
from corral.scheduling.capacity import Capacity
from corral.scheduling.cycle import Cycle, plan_cycle
from corral.scheduling.draft import Draft, FitMemo
from corral.scheduling.order import PRIORITY, Order
from corral.scheduling.waiting import Waiting

_LIVE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})


class Planner:
    """Plans over the view it was given and every delta since. Pure: no clock, no chance, no I/O. Not thread-safe."""

    def __init__(self, view: View | None = None, *, order: Order = PRIORITY, limits: Limits | None = None) -> None:
        self._source = ViewDraft(view or View())
        self._limits = limits or Limits()
        self._capacity = Capacity(self._source)
        self._waiting = Waiting(order)
        self._memo = FitMemo()
        self._live: dict[str, Job] = {}
        self._running = 0
        self._of_array: dict[str, int] = {}
        for job in self._source.view.jobs.values():
            self._follow(job)

    def advance(self, deltas: Iterable[Delta]) -> None:
        """Take in what happened, in order."""
        batch = tuple(deltas)
        self._source.apply(batch)
        for delta in batch:
            self._capacity.follow(delta)
            match delta:
                case JobSubmitted(job=job) | JobRequeued(job=job):
                    self._follow(self._source.view.jobs[job.id])
                case JobChanged(job_id=job_id):
                    self._follow(self._source.view.jobs[job_id])
        self._source.forget_ended()

    def plan(self, now: float) -> Plan:
        """What to do at `now` (Unix seconds)."""
        self._waiting.wake(now)
        view = self._source.view
        return plan_cycle(
            Cycle(
                version=view.version,
                jobs=view.jobs,
                waiting=self._waiting,
                draft=Draft(self._capacity, self._memo),
                choose=choose.choose,
                method=choose.METHOD,
                limits=self._limits,
                running=self._running,
                of_array=self._of_array,
            )
        )

    def _follow(self, job: Job) -> None:
        self._waiting.follow(job)
        before = self._live.pop(job.id, None)
        if before is not None:
            self._count(before, -1)
        if job.phase in _LIVE:
            self._live[job.id] = job
            self._count(job, 1)

    def _count(self, job: Job, sign: int) -> None:
        if job.spec.kind is JobKind.RUN:
            self._running += sign
        if job.array_id is not None:
            count = self._of_array.get(job.array_id, 0) + sign
            if count:
                self._of_array[job.array_id] = count
            else:
                del self._of_array[job.array_id]
