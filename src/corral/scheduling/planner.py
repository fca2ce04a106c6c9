"""The state kept between cycles: advanced by deltas, asked for plans. A warm planner and a cold one plan the same."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from corral.model.allocation import Allocation
from corral.model.fact import AllocationEnded, Delta, JobChanged, JobRequeued, JobSubmitted, SiteArranged
from corral.model.job import Job, Phase, Request
from corral.model.plan import Evict, Plan
from corral.model.queue import Limits
from corral.model.quota import Held
from corral.model.run_history import spent_since
from corral.model.view import View, ViewDraft
from corral.scheduling.cycle import Cycle
from corral.scheduling.evicting.preemption import Preemption
from corral.scheduling.evicting.time_slicing import TimeSlices, due
from corral.scheduling.evicting.victims import Running
from corral.scheduling.placing.worth.arrival_mix import ArrivalMix
from corral.scheduling.policy import DEFAULT, POLICIES, Backfill, Policy, policy_of
from corral.scheduling.promising.run_time import expected_end, run_estimate_s
from corral.scheduling.queueing.admission import Admission, Books, Scope, UsedSeconds, weighted_usage
from corral.scheduling.queueing.demand import Demands
from corral.scheduling.queueing.fair_share import FairShare
from corral.scheduling.queueing.order import OrderContext, Ranking
from corral.scheduling.queueing.pools import Pools
from corral.scheduling.queueing.waiting import Turns, WaitingJobs
from corral.scheduling.state.capacity import Capacity
from corral.scheduling.state.draft import Choose, Draft, FitMemo
from corral.scheduling.state.timeline import SAME_MOMENT_S, Release, Timeline

if TYPE_CHECKING:
    from corral.scheduling.placing.packing import Packer, ScoreMaker
    from corral.scheduling.placing.worth.values import Prices

A_MOMENT_S = 0.001
"""So much later, no rounding of times can have it that the time has not come."""

_LIVE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})


class Planner:
    """Plans over the view it was given and every delta since. Pure: no clock, no chance, no I/O. Not thread-safe.

    `policy` serves the queues of which the view says nothing; the others are served by the policy they name.
    `limits` are those of the view where they are left out. `scores` are what policies may rank nodes by, left out
    those of `corral.scheduling.placing.packing`. `prices` are what another planner has learned: with them, equal
    views are planned alike.
    """

    def __init__(
        self,
        view: View | None = None,
        *,
        policy: Policy = DEFAULT,
        policies: Mapping[str, Policy] = POLICIES,
        limits: Limits | None = None,
        scores: "Mapping[str, ScoreMaker] | None" = None,
        prices: "Prices | None" = None,
    ) -> None:
        self._source = ViewDraft(view or View())
        self._limits = limits
        self._policy = policy
        self._policies = policies
        self._scores = scores
        self._prices = prices
        self._mix = ArrivalMix()
        self._capacity = Capacity(self._source)
        self._demands = Demands(self._capacity)
        self._memo = FitMemo()
        self._packers: dict[tuple[tuple[str, float], ...], Packer] = {}
        self._settled = OrderContext(
            now=0.0,
            estimate_s=self._estimate_s,
            served_s=lambda job: self.view.served.get(job.id, 0.0),
            gpus=self._demands.gpus,
        )
        self._line_up()

    @property
    def view(self) -> View:
        """The view as far as the planner has been told; good until the next delta."""
        return self._source.view

    def like(self, view: View) -> "Planner":
        """Another planner, of another view, that plans as this one does."""
        return Planner(
            view,
            policy=self._policy,
            policies=self._policies,
            limits=self._limits,
            scores=self._scores,
            prices=self.prices,
        )

    def recall(self, requests: Iterable[Request]) -> None:
        """Expect more of what arrived before this planner was made: the requests of earlier jobs, in their order."""
        for request in requests:
            self._mix.observe(request)

    def advance(self, deltas: Iterable[Delta]) -> None:
        """Take in what happened, in order."""
        batch = tuple(deltas)
        self._source.apply(batch)
        for delta in batch:
            self._capacity.follow(delta)
            self._demands.follow(delta)
            match delta:
                case JobSubmitted(job=job) | JobRequeued(job=job):
                    self._follow(self.view.jobs[job.id])
                    if isinstance(delta, JobSubmitted):
                        self._mix.observe(job.spec.request)
                case JobChanged(job_id=job_id):
                    self._follow(self.view.jobs[job_id])
                case AllocationEnded(job_id=job_id) if job_id in self.view.jobs:
                    self._follow(self.view.jobs[job_id])
        self._source.forget_ended()
        if any(isinstance(delta, SiteArranged) for delta in batch):
            self._line_up()

    def _line_up(self) -> None:
        """Put every job into its queue, and book what is held, by the queues that the view has now."""
        self._policy_of: dict[str, Policy] = {}
        self._waiting = WaitingJobs(self._ranking_of)
        self._books = Books(self.view.queues)
        self._live: dict[str, Job] = {}
        self._ends: list[tuple[float, str]] = []
        self._booked: dict[str, tuple[str | None, Held]] = {}
        for job in self.view.jobs.values():
            self._follow(job)

    def plan(self, now: float) -> Plan:
        """What to do at `now` (Unix seconds)."""
        view = self.view
        fair = FairShare(view, now)
        context = self._order_context(now, fair)
        self._waiting.wake(context)
        admission = Admission(
            self._books, self._demands, self._limits or view.limits, view.projects, self._used_s_at(now)
        )
        draft = Draft(self._capacity, self._memo)
        pools = self._pools(admission)
        evictions = self._rotations(draft, context, admission, pools)
        if evictions:
            return Plan(view.version, evictions=evictions, complete=False)
        preemption = Preemption(view, self._policy_of, admission, self._running, pools)
        holding = weighted_usage(admission, view.queues)
        # A promise that is kept for good is not to be put off by a moment either.
        keeps_all = any(policy.backfill is Backfill.CONSERVATIVE for policy in self._policy_of.values())
        cycle = Cycle(
            version=view.version,
            jobs=view.jobs,
            turns=Turns(self._waiting.lines, view.jobs, context, holding, preemption.may_go_first),
            context=context,
            policy_of=self._policy_of,
            admission=admission,
            fair=fair,
            draft=draft,
            ends_of=lambda scope: self._ends_of(scope, now),
            preemption=preemption,
            chooser=self._chooser,
            ends_soon=lambda: self._ends_soon(now),
            timeline=Timeline(
                now,
                draft.free,
                lambda name: self._releases(draft, name, now),
                draft.slots_of,
                overlap_s=0.0 if keeps_all else SAME_MOMENT_S,
            ),
        )
        cycle.renew_promises(view.promises)
        plan = cycle.decide()
        draft.timeline = None  # it reads the draft: knowing each other, both would outlive the plan until a collection
        faults = self._faults()
        return replace(plan, faults=faults) if faults else plan

    def _pools(self, admission: Admission) -> Pools:
        """The pools, with those waiting jobs that may want theirs back: the first of each user and project."""
        if not any(pool.lends for pool in self.view.pools.values()):
            return Pools(self.view.pools)
        first: dict[tuple[str, str, str], Job] = {}
        for queue in sorted(self._waiting.lines):
            for _, job_id in self._waiting.lines[queue].everybody:
                job = self.view.jobs[job_id]
                if job.spec.request.devices:
                    first.setdefault((queue, job.spec.project, job.spec.user), job)
        return Pools(self.view.pools, [job for job in first.values() if admission.barrier(job, inf) is None])

    def position(self, job: Job, now: float) -> int:
        """The place of a waiting job in its queue, from 1, among those that may start as soon as there is room."""
        context = self._order_context(now, FairShare(self.view, now))
        self._waiting.wake(context)
        line = self._waiting.line(job.spec.queue)
        return line.place_of(job, self.view.jobs, context)

    def evictable_at(self, job: Job, since: float) -> tuple[float, ...]:
        """When, by time alone, a job that was started then may come to be stopped for others (Unix seconds).

        That is after its quantum, and once it is spared no longer where anybody might take its place.
        """
        policy = self._policy_of[job.spec.queue]
        moments = [] if policy.quantum_s is None else [since + policy.quantum_s]
        if policy.spared_s and self._evicts():
            moments.append(since + policy.spared_s)
        return tuple(moment + A_MOMENT_S for moment in moments)

    def _evicts(self) -> bool:
        """Whether there is a queue or a pool that may have jobs ended for its own."""
        queues, pools = self.view.queues.values(), self.view.pools.values()
        lend = any(queue.parent is not None and queue.quota.share_milli is not None for queue in queues)
        return lend or any(queue.preempts for queue in queues) or any(pool.lends for pool in pools)

    def _used_s_at(self, now: float) -> UsedSeconds:
        """Counts GPU-seconds in a scope's name: those given back, to the hour, and those held at this moment."""

        def used_s(scope: Scope, period_s: float) -> float:
            held_s = sum(
                one.allocation.gpus * min(period_s, max(0.0, now - one.allocation.created_at))
                for one in self._running()
                if scope in self._books.scopes(one.job)
            )
            below = [name for name in self._books.queues if scope.name in self._books.ancestry(name)]
            keys = [("queue", name) for name in sorted(below)] if scope.kind == "queue" else [(scope.kind, scope.name)]
            return held_s + sum(spent_since(self.view.spent.get(key, ()), now - period_s) for key in keys)

        return used_s

    def _faults(self) -> tuple[str, ...]:
        """Orders that raised or returned nonsense, and what is done instead."""
        lines = sorted(self._waiting.lines.items())
        return tuple(
            f"queue {queue}: {line.ranking.fault}; it is served first come, first served until the server is restarted"
            for queue, line in lines
            if line.ranking.fault is not None
        )

    def learn(self) -> bool:
        """One bounded step of learning what to expect, between decisions; False when there is nothing to learn."""
        return any(packer.learn() for packer in self._packers.values())

    @property
    def prices(self) -> "Prices | None":
        """What free capacity is taken to be worth, None while nothing was placed by worth."""
        return next((packer.prices for packer in self._packers.values() if packer.prices is not None), self._prices)

    def _order_context(self, now: float, fair: FairShare) -> OrderContext:
        served_s, gpus = (lambda job: self._served_s(job, now)), self._demands.gpus
        return OrderContext(now, self._estimate_s, served_s, fair.over_use, gpus)

    def _estimate_s(self, job: Job) -> float | None:
        return run_estimate_s(job, self.view.durations)

    def _rotations(self, draft: Draft, context: OrderContext, admission: Admission, pools: Pools) -> tuple[Evict, ...]:
        """Who had a quantum and makes room, queue by queue."""
        evictions: list[Evict] = []
        for queue in sorted(self._waiting.lines):
            line, policy = self._waiting.lines[queue], self._policy_of[queue]
            if policy.quantum_s is not None and line.everybody:
                had = due((one for one in self._running() if one.job.spec.queue == queue), policy, context.now)
                if had:
                    waiting = line.in_order(self.view.jobs, context)
                    rotation = TimeSlices(draft, line.ranking, context, self.view.jobs, policy, admission, pools)
                    evictions += rotation.evictions(waiting, had)
        return tuple(evictions)

    def _running(self) -> list[Running]:
        allocations = self.view.allocations
        return [
            Running(job, allocations[job.allocation_id])
            for job in self._live.values()
            if job.allocation_id is not None and job.allocation_id in allocations
        ]

    def _served_s(self, job: Job, now: float) -> float:
        """GPU-seconds that the job has had, in this run and before."""
        served_s = self.view.served.get(job.id, 0.0)
        allocation = self.view.allocations.get(job.allocation_id or "")
        return served_s if allocation is None else served_s + allocation.gpus * max(0.0, now - allocation.created_at)

    def _releases(self, draft: Draft, name: str, now: float) -> list[Release]:
        """Who gives back what on the node, jobs of this very cycle included."""
        running = [
            Release(self._end(allocation, now), member)
            for allocation in self._capacity.allocations_on(name)
            for member in allocation.placement.members
            if member.node == name
        ]
        return [*running, *draft.started.get(name, ())]

    def _ends_of(self, scope: Scope, now: float) -> list[tuple[float, Held]]:
        """When each running job of the scope is expected to end, and what it gives back."""
        return [
            (self._end(one.allocation, now), self._demands.of(one.job, one.allocation.placement))
            for one in self._running()
            if scope in self._books.scopes(one.job)
        ]

    def _ends_soon(self, now: float) -> bool:
        """Whether a running job is to end at this moment, or should just have, by its estimate."""
        while self._ends and self._ends[0][0] < now + SAME_MOMENT_S:
            end, job_id = self._ends[0]
            estimated = self._estimated_end(self._live.get(job_id))
            if estimated == end and end > now - SAME_MOMENT_S:
                return True
            heappop(self._ends)
            if estimated is not None and estimated > end:
                heappush(self._ends, (estimated, job_id))
        return False

    def _estimated_end(self, job: Job | None) -> float | None:
        """When a job that runs is to end, though it may be overdue; None where nobody knows."""
        if job is None or job.phase is not Phase.RUNNING or job.started_at is None:
            return None
        run_s = self._estimate_s(job)
        return None if run_s is None else job.started_at + run_s

    def _end(self, allocation: Allocation, now: float) -> float:
        job = self.view.jobs.get(allocation.job_id)
        return now if job is None else expected_end(job, allocation, now, self.view.durations)

    def _ranking_of(self, queue: str) -> Ranking:
        known = self.view.queues.get(queue)
        policy = self._policy if known is None else policy_of(known, self._policies)
        self._policy_of[queue] = policy
        return Ranking(policy.order, urgent_first=known is not None and known.preempts)

    def _chooser(self, ranking: tuple[tuple[str, float], ...]) -> Choose:
        """How a place is chosen by these scores."""
        packer = self._packers.get(ranking)
        if packer is None:
            # The arrays it stands on take memory and time that a server without jobs need not spend.
            from corral.scheduling.placing.packing import Packer

            packer = Packer(self._capacity, ranking, scores=self._scores, mix=self._mix, prices=self.prices)
            self._packers[ranking] = packer
        return packer.choose

    def _follow(self, job: Job) -> None:
        self._waiting.follow(job, self._settled)
        self._live.pop(job.id, None)
        live = job.phase in _LIVE
        if live:
            self._live[job.id] = job
            if (end := self._estimated_end(job)) is not None:
                heappush(self._ends, (end, job.id))
        booked = self._booked.get(job.id)
        if booked is not None and not (live and booked[0] == job.allocation_id):
            self._books.book(job, booked[1], -1)
            del self._booked[job.id]
        if live and job.id not in self._booked:
            allocation = self.view.allocations.get(job.allocation_id or "")
            held = self._demands.least(job) if allocation is None else self._demands.of(job, allocation.placement)
            self._booked[job.id] = (job.allocation_id, held)
            self._books.book(job, held, 1)
