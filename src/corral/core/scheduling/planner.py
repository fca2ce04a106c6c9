"""The planner: keeps state between cycles, is advanced by deltas, and makes a plan for a given time.

A planner that was advanced delta by delta makes the same plan as a new one over the same view.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from corral.core.model.fact import (
    AllocationEnded,
    Delta,
    JobChanged,
    JobRequeued,
    JobSubmitted,
    JobUpdated,
    SiteArranged,
)
from corral.core.model.jobs.job import Job, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.core.model.placing.fit import fit_memo
from corral.core.model.placing.plan import Evict, Plan
from corral.core.model.queues.queue import Limits
from corral.core.model.queues.quota import QuotaUse, Scope, Used, ancestry, scopes_of
from corral.core.model.runs.run_history import spent_since
from corral.core.model.view import View, ViewDraft
from corral.core.scheduling.cycle import Cycle
from corral.core.scheduling.evicting.giving_way import GivingWay
from corral.core.scheduling.evicting.moving import Moves
from corral.core.scheduling.evicting.preemption import Preemption
from corral.core.scheduling.evicting.time_slicing import TimeSlices, quantum_expired
from corral.core.scheduling.evicting.victims import Running
from corral.core.scheduling.placing.opening import Opening
from corral.core.scheduling.placing.places import Places
from corral.core.scheduling.placing.worth.arrival_mix import ArrivalMix
from corral.core.scheduling.policy import DEFAULT, POLICIES, Policy, policy_of
from corral.core.scheduling.promising.promises import Promises
from corral.core.scheduling.promising.run_time import expected_end, run_estimate_s
from corral.core.scheduling.queueing.admission import Admission, UsedSeconds, released, weighted_usage
from corral.core.scheduling.queueing.demand import Demands
from corral.core.scheduling.queueing.fair_share import FairShare
from corral.core.scheduling.queueing.order import OrderContext, Ranking
from corral.core.scheduling.queueing.pools import Pools
from corral.core.scheduling.queueing.power_budget import PowerBudget
from corral.core.scheduling.queueing.waiting import Turns, WaitingJobs
from corral.core.scheduling.state.capacity import Capacity
from corral.core.scheduling.state.draft import Choose, Draft
from corral.core.scheduling.state.timeline import SAME_MOMENT_S, Release, Timeline

if TYPE_CHECKING:
    from corral.core.scheduling.placing.packing import Packer, ScoreMaker
    from corral.core.scheduling.placing.worth.values import Prices

A_MOMENT_S = 0.001
"""Added to a time after which something is allowed, so that rounding cannot make it too early."""

_LIVE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})


class Planner:
    """Makes plans over its view and all deltas since. Pure: no clock, no randomness, no I/O. Not thread-safe.

    `policy` is for queues that the view does not describe; every other queue names one of `policies`.
    `limits` replaces the limits of the view. `scores` replaces `placing.packing.SCORES`, by which
    policies rank nodes. `prices` are learned by another planner; with the same prices, equal views give equal plans.
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
        self._memo = fit_memo()
        self._packers: dict[tuple[tuple[str, float], ...], Packer] = {}
        self._settled_context = OrderContext(
            now=0.0,
            estimate_s=self._estimate_s,
            served_s=lambda job: self.view.served.get(job.id, 0.0),
            gpus=self._demands.gpus,
        )
        self._rebuild_queues()

    @property
    def view(self) -> View:
        """The current view; valid until the next `advance`."""
        return self._source.view

    def with_view(self, view: View) -> "Planner":
        """A new planner over another view, with the settings and prices of this one."""
        return Planner(
            view,
            policy=self._policy,
            policies=self._policies,
            limits=self._limits,
            scores=self._scores,
            prices=self.prices,
        )

    def observe_requests(self, requests: Iterable[Request]) -> None:
        """Add the requests of earlier jobs, oldest first, to the sample from which future arrivals are estimated."""
        for request in requests:
            self._mix.observe(request)

    def advance(self, deltas: Iterable[Delta]) -> None:
        """Apply deltas, in order."""
        batch = tuple(deltas)
        self._source.apply(batch)
        jobs, rearranged = self.view.jobs, False
        for delta in batch:
            self._capacity.follow(delta)
            self._demands.follow(delta)
            match delta:
                case JobChanged(job_id=job_id) | JobUpdated(job_id=job_id):
                    self._follow(jobs[job_id])
                case JobSubmitted(job=job):
                    self._follow(jobs[job.id])
                    self._mix.observe(job.spec.request)
                case JobRequeued(job=job):
                    self._follow(jobs[job.id])
                case AllocationEnded(job_id=job_id) if job_id in jobs:
                    self._follow(jobs[job_id])
                case SiteArranged():
                    rearranged = True
        self._source.forget_ended()
        if rearranged:
            self._rebuild_queues()

    def _rebuild_queues(self) -> None:
        """Rebuild the queues, and the counts of their use, from the jobs and queues of the view."""
        self._policy_of: dict[str, Policy] = {}
        self._waiting = WaitingJobs(self._ranking_of)
        self._use = QuotaUse(self.view.queues)
        self._live: dict[str, Job] = {}
        self._ends: list[tuple[float, str]] = []
        self._booked: dict[str, tuple[Job, Used]] = {}
        for job in self.view.jobs.values():
            self._follow(job)

    def plan(self, now: float) -> Plan:
        """The plan for `now` (Unix seconds)."""
        view = self.view
        fair = FairShare(view, now)
        context = self._order_context(now, fair)
        self._waiting.wake(context)
        admission = self.admission(now)
        draft = Draft(self._capacity, self._memo)
        pools = self._pools(admission)
        evictions = self._time_slice_evictions(draft, context, admission, pools)
        if evictions:
            return Plan(view.version, evictions=evictions, complete=False)
        moves = Moves(self._running, self._policy_of, pools) if now < view.moves_until else None
        preemption = Preemption(view, self._policy_of, admission, self._running, pools)
        holding = weighted_usage(admission, view.queues)
        draft.timeline = self._timeline(draft, now)
        cycle = Cycle(
            version=view.version,
            now=now,
            jobs=view.jobs,
            policy_of=self._policy_of,
            run_s=self._run_s,
            turns=Turns(self._waiting.queues, view.jobs, context, holding, preemption.may_go_first),
            admission=admission,
            ends_of=lambda scope: self._ends_of(scope, now, admission),
            fair=fair,
            places=Places(draft, pools, admission, self._chooser),
            giving_way=GivingWay(preemption, draft, now, moves),
            promises=Promises(draft, draft.timeline, admission, view.jobs, lambda: self._ends_soon(now)),
        )
        plan = cycle.decide(view.promises)
        draft.timeline = None  # the two refer to each other: both would stay in memory until a garbage collection
        faults = self._order_faults()
        return replace(plan, faults=faults) if faults else plan

    def _timeline(self, draft: Draft, now: float) -> Timeline:
        """Free capacity from now on. With conservative backfill no start may be even slightly later than promised."""
        overlap_s = 0.0 if any(policy.keeps_promises for policy in self._policy_of.values()) else SAME_MOMENT_S
        return Timeline(
            now, draft.free, lambda name: self._releases(draft, name, now), draft.capacity.slots_of, overlap_s=overlap_s
        )

    def admission(self, now: float) -> Admission:
        """The limits and quotas at `now`, over the jobs that run then: they decide which jobs may start."""
        view, limits = self.view, self._limits or self.view.limits
        power = None if limits.power_budget_w is None else self._power_budget(limits.power_budget_w)
        return Admission(self._use, self._demands, limits, view.projects, self._used_s_at(now), power=power)

    def _power_budget(self, budget_w: int) -> PowerBudget:
        budget = PowerBudget(budget_w, self._demands.powered_device, self._demands.power_limits_mw)
        for one in self._running():
            budget.count(one.job, one.allocation.placement)
        return budget

    def _pools(self, admission: Admission) -> Pools:
        """The pools, which stop lending for some jobs: the first waiting job of each queue, project and user."""
        if not any(pool.lends for pool in self.view.pools.values()):
            return Pools(self.view)
        first: dict[tuple[str, str, str], Job] = {}
        for queue in sorted(self._waiting.queues):
            for _, job_id in self._waiting.queues[queue].places:
                job = self.view.jobs[job_id]
                if job.spec.request.devices:
                    first.setdefault((queue, job.spec.project, job.spec.user), job)
        return Pools(self.view, [job for job in first.values() if admission.barrier(job, inf) is None])

    def position(self, job: Job, now: float) -> int:
        """The position of a waiting job in its queue, from 1, among the jobs that are eligible to start."""
        context = self._order_context(now, FairShare(self.view, now))
        self._waiting.wake(context)
        waiting_queue = self._waiting.queue_named(job.spec.queue)
        return waiting_queue.place_of(job, self.view.jobs, context)

    def evictable_at(self, job: Job, since: float) -> tuple[float, ...]:
        """The times (Unix seconds) from which a job started at `since` may be evicted.

        They are the end of its quantum, and the end of its protected time if any queue or pool may evict.
        """
        policy = self._policy_of[job.spec.queue]
        moments = [] if policy.quantum_s is None else [since + policy.quantum_s]
        if policy.spared_s and self._may_evict():
            moments.append(since + policy.spared_s)
        return tuple(moment + A_MOMENT_S for moment in moments)

    def _may_evict(self) -> bool:
        """Whether any queue or pool may evict jobs."""
        queues, pools = self.view.queues.values(), self.view.pools.values()
        lend = any(queue.parent is not None and queue.quota.share_milli is not None for queue in queues)
        return lend or any(queue.preempts for queue in queues) or any(pool.lends for pool in pools)

    def _used_s_at(self, now: float) -> UsedSeconds:
        """A function that counts the GPU-seconds used in a scope, by ended (to the hour) and current allocations."""

        def used_s(scope: Scope, period_s: float) -> float:
            held_s = sum(
                one.allocation.gpus * min(period_s, max(0.0, now - one.allocation.created_at))
                for one in self._running_in(scope)
            )
            below = [name for name in self._use.queues if scope.name in ancestry(self._use.queues, name)]
            keys = [("queue", name) for name in sorted(below)] if scope.kind == "queue" else [(scope.kind, scope.name)]
            return held_s + sum(spent_since(self.view.spent.get(key, ()), now - period_s) for key in keys)

        return used_s

    def _order_faults(self) -> tuple[str, ...]:
        """A sentence for each order that raised or returned an invalid rank, with what the planner does instead."""
        return tuple(
            f"queue {name}: {queue.ranking.fault}; it is served first come, first served until the server is restarted"
            for name, queue in sorted(self._waiting.queues.items())
            if queue.ranking.fault is not None
        )

    def opening(self, job: Job, now: float) -> "Opening":
        """What a job that need not be among the waiting ones could have now on each node, whatever is promised to
        others.
        """
        admission = self.admission(now)
        places = Places(Draft(self._capacity, self._memo), self._pools(admission), admission, self._chooser)
        wanted = replace(places.request(job, inf), respects_promises=False)
        known = self.view.queues.get(job.spec.queue)
        policy = self._policy if known is None else policy_of(known, self._policies)
        scorer = None
        if policy.ranking:
            self._chooser(policy.ranking)
            scorer = self._packers[policy.ranking].scores
        return Opening(job, wanted, policy, places, self._capacity.changes, scorer)

    def learn(self) -> bool:
        """Do one bounded step of learning from arrivals. Return False if there is nothing to learn."""
        return any(packer.learn() for packer in self._packers.values())

    @property
    def prices(self) -> "Prices | None":
        """The estimated worth of free capacity; None if no policy has used it yet."""
        return next((packer.prices for packer in self._packers.values() if packer.prices is not None), self._prices)

    def _order_context(self, now: float, fair: FairShare) -> OrderContext:
        served_s, gpus = (lambda job: self._served_s(job, now)), self._demands.gpus
        return OrderContext(now, self._estimate_s, served_s, fair.over_use, gpus)

    def _estimate_s(self, job: Job) -> float | None:
        return run_estimate_s(job, self.view.durations)

    def _run_s(self, job: Job) -> float:
        run_s = self._estimate_s(job)
        return inf if run_s is None else run_s

    def _time_slice_evictions(
        self, draft: Draft, context: OrderContext, admission: Admission, pools: Pools
    ) -> tuple[Evict, ...]:
        """The jobs that are evicted because their quantum is over, queue by queue."""
        evictions: list[Evict] = []
        for name, queue in sorted(self._waiting.queues.items()):
            policy = self._policy_of[name]
            if policy.quantum_s is None or not queue.places:
                continue
            expired = quantum_expired(
                (one for one in self._running() if one.job.spec.queue == name), policy, context.now
            )
            if expired:
                slices = TimeSlices(draft, queue.ranking, context, self.view.jobs, policy, admission, pools)
                evictions += slices.evictions(queue.in_order(self.view.jobs, context), expired)
        return tuple(evictions)

    def _running(self) -> list[Running]:
        allocations = self.view.allocations
        return [
            Running(job, allocations[job.allocation_id], self.view.unsaved_since(allocations[job.allocation_id]))
            for job in self._live.values()
            if job.allocation_id is not None and job.allocation_id in allocations
        ]

    def _running_in(self, scope: Scope) -> Iterator[Running]:
        return (one for one in self._running() if scope in scopes_of(one.job, self._use.queues))

    def _served_s(self, job: Job, now: float) -> float:
        """GPU-seconds that the job has had, in this attempt and earlier ones."""
        served_s = self.view.served.get(job.id, 0.0)
        allocation = self.view.allocations.get(job.allocation_id or "")
        return served_s if allocation is None else served_s + allocation.gpus * max(0.0, now - allocation.created_at)

    def _releases(self, draft: Draft, name: str, now: float) -> list[Release]:
        """The expected release of each allocation on the node, including the starts of this cycle."""
        running = [
            Release(self._end(allocation, now), member)
            for allocation in self._capacity.allocations_on(name)
            for member in allocation.placement.members
            if member.node == name
        ]
        return [*running, *draft.started.get(name, ())]

    def _ends_of(self, scope: Scope, now: float, admission: Admission) -> Iterator[tuple[float, Used]]:
        """The expected end of each running job of the scope, with the use that ends with it."""
        for one in self._running_in(scope):
            yield self._end(one.allocation, now), released(admission, one.job, one.allocation.placement)

    def _ends_soon(self, now: float) -> bool:
        """Whether a running job is expected to end within SAME_MOMENT_S of now, before or after."""
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
        """The estimated end of a running job (Unix seconds), which may be past; None if it has no estimate."""
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
        return Ranking(policy.order, urgent_first=known is not None and known.preempts is True)

    def _chooser(self, ranking: tuple[tuple[str, float], ...]) -> Choose:
        """The function that chooses placements by these weighted scores, made on first use."""
        packer = self._packers.get(ranking)
        if packer is None:
            # Imported late: NumPy takes memory and time that a server without jobs need not spend.
            from corral.core.scheduling.placing.packing import Packer

            packer = Packer(self._capacity, ranking, scores=self._scores, mix=self._mix, prices=self.prices)
            self._packers[ranking] = packer
        return packer.choose

    def _follow(self, job: Job) -> None:
        self._waiting.follow(job, self._settled_context)
        self._live.pop(job.id, None)
        live = job.phase in _LIVE
        if live:
            self._live[job.id] = job
            if (end := self._estimated_end(job)) is not None:
                heappush(self._ends, (end, job.id))
        booked = self._booked.get(job.id)
        if booked is not None and not (live and booked[0].allocation_id == job.allocation_id):
            # The use counts for the queue that the job ran in: the job may have moved to another queue since.
            self._use.count(*booked, -1)
            del self._booked[job.id]
        if live and job.id not in self._booked:
            allocation = self.view.allocations.get(job.allocation_id or "")
            used = self._demands.least(job) if allocation is None else self._demands.of(job, allocation.placement)
            self._booked[job.id] = (job, used)
            self._use.count(job, used, 1)
