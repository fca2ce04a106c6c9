"""The rules of eviction: less urgent jobs if a queue preempts, borrowers if an owner reclaims."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.queues.quota import SITE, Scope, Used, siblings
from corral.core.model.view import View
from corral.core.scheduling.evicting.victims import (
    NO_SHORTFALL,
    EvictionPlan,
    EvictionReason,
    Running,
    Shortfall,
    WhyEvict,
    draft_without,
    eviction_cost,
    plan_evictions,
)
from corral.core.scheduling.policy import Policy
from corral.core.scheduling.queueing.admission import Admission
from corral.core.scheduling.queueing.pools import Pools
from corral.core.scheduling.state.draft import Draft, PlacementRequest


@dataclass(frozen=True, slots=True)
class Preemption:
    """The rules for one cycle. `running` is called only when a job does not fit and may evict others."""

    view: View
    policy_of: Mapping[str, Policy]
    admission: Admission
    running: Callable[[], list[Running]]
    pools: Pools

    def make_room(self, draft: Draft, job: Job, wanted: PlacementRequest, now: float) -> EvictionPlan | None:
        """The evictions that make the job fit, by any of the rules; None if there are none, or none are allowed."""
        reason = self._rules_for(job, now)
        return None if reason is None else self._evictions(draft, wanted, reason, now)

    def lift_limits(
        self, draft: Draft, job: Job, wanted: PlacementRequest, now: float, *, first: bool
    ) -> EvictionPlan | None:
        """The evictions that lift all limits that block the job, and make it fit; None if there are none.

        First, less urgent jobs of any user that count against these limits are evicted. If that does not make the
        job fit, other jobs may be evicted as well, but only for the `first` job of its queue that waits for room.
        """
        missing = self.admission.shortfall(job) if self.preempts(job.spec.queue) else None
        if not missing:
            return None
        short = Shortfall(missing, self.admission)

        def within(one: Running) -> EvictionReason | None:
            scope = next(iter(short.scopes_of(one)), None)
            if scope is None or one.job.spec.priority <= job.spec.priority:
                return None
            if self._protected(one, now) or self._would_take_back(one, job):
                return None
            of = _limit_called(scope, missing[scope])
            text = f"job {job.id} has priority {job.spec.priority} and goes before {one.job.spec.priority} in {of}"
            return EvictionReason(EvictionRule.PRIORITY, text)

        found = self._evictions(draft, wanted, within, now, short)
        beside = self._rules_for(job, now) if found is None and first else None
        if beside is not None:
            found = self._evictions(draft, wanted, lambda one: within(one) or beside(one), now, short)
        return found if found is None or self._allows(job, found) else None

    def _evictions(
        self, draft: Draft, wanted: PlacementRequest, reason: WhyEvict, now: float, short: Shortfall = NO_SHORTFALL
    ) -> EvictionPlan | None:
        running = self.running()
        owners = {one.job.id for one in running if self.pools.owns_any(one.job, wanted.lending_pools)}
        found = plan_evictions(
            draft, wanted, running, lambda one: None if one.job.id in owners else reason(one), now, short=short
        )
        if found is not None or not owners:
            return found
        # An evicted owner will reclaim what its pool lends, and the job must then fit without lent devices.
        return plan_evictions(draft, wanted.without_lent(), running, reason, now, short=short)

    def _allows(self, job: Job, found: EvictionPlan) -> bool:
        """Whether the job stays within its limits at its place, where it may count as more than its minimum."""
        stopping = [one for one in self.running() if one.job.phase is Phase.STOPPING]
        left = self._without([*stopping, *(one for one, _ in found.evicted)])
        return left.admission.exceeded(job, found.placement) is None

    def _rules_for(self, job: Job, now: float) -> WhyEvict | None:
        """The function that says why a running job may be evicted for this one; None if no rule allows any eviction."""
        preempts = self.preempts(job.spec.queue)
        reclaims = self._reclaims(job)
        lends = self.pools.lends_of(job)
        if not preempts and not reclaims and not lends:
            return None

        def reason(one: Running) -> EvictionReason | None:
            if self._protected(one, now):
                return None
            if preempts and one.job.spec.priority > job.spec.priority:
                text = f"job {job.id} has priority {job.spec.priority} and goes before {one.job.spec.priority}"
                return EvictionReason(EvictionRule.PRIORITY, text)
            if reclaims and self._borrows(one.job, job.spec.queue):
                return _takes_back(job, one)
            pool = self.pools.borrowed(one.job, one.allocation, lends)
            if pool is not None:
                text = f"pool {pool} reclaims for job {job.id} what it had lent to {one.job.spec.user}"
                return EvictionReason(EvictionRule.POOL_RECLAIM, text, pool)
            return None

        return reason

    def reclaim(self, draft: Draft, job: Job, wanted: PlacementRequest, now: float) -> EvictionPlan | None:
        """The evictions that let a job start if a quota that sibling queues have borrowed blocks it.

        None if something else blocks it, or if it would still not fit. Jobs that are stopping count as gone.
        """
        running = self.running() if self._reclaims(job) else []
        stopping = [one for one in running if one.job.phase is Phase.STOPPING]
        evicted: list[Running] = []
        for one in sorted(self._evictable_borrowers(running, job, now), key=lambda one: eviction_cost(one, now)):
            if not self._without([*stopping, *evicted])._bars(job):
                break
            if self._without([*stopping, *evicted])._borrows(one.job, job.spec.queue):
                evicted.append(one)
        if not running or self._without([*stopping, *evicted])._bars(job):
            return None
        for one in reversed(list(evicted)):
            others = [other for other in evicted if other is not one]
            evicted = evicted if self._without([*stopping, *others])._bars(job) else others
        found = self._without(evicted).make_room(draft_without(draft, evicted), job, wanted, now)
        if found is None:
            return None
        found = EvictionPlan(found.placement, (*((one, _takes_back(job, one)) for one in evicted), *found.evicted))
        return found if self._allows(job, found) else None

    def _evictable_borrowers(self, running: Iterable[Running], job: Job, now: float) -> list[Running]:
        return [
            one
            for one in running
            if one.runs and not self._protected(one, now) and self._borrows(one.job, job.spec.queue)
        ]

    def _without(self, some: Sequence[Running]) -> "Preemption":
        """The rules as if these jobs were not running."""
        ids = frozenset(one.job.id for one in some)
        left = self.admission.without((one.job, one.allocation.placement) for one in some)
        return replace(self, admission=left, running=lambda: [one for one in self.running() if one.job.id not in ids])

    def _bars(self, job: Job) -> bool:
        return self.admission.barrier(job) is not None

    def _would_take_back(self, one: Running, job: Job) -> bool:
        """Whether the queue of `one` lends what `job` would take, and would evict `job` in turn to get it back."""
        lender, own = self.view.queues.get(one.job.spec.queue), self.view.queues.get(job.spec.queue)
        if lender is None or own is None or lender.quota.share_milli is None or own.quota.share_milli is None:
            return False
        with_it = self.admission.used(Scope("queue", own.name)).milli + self.admission.demands.least(job).milli
        return lender in siblings(self.view.queues, own) and with_it > own.quota.share_milli

    def _protected(self, one: Running, now: float) -> bool:
        policy = self.policy_of.get(one.job.spec.queue)
        return policy is not None and now - one.allocation.created_at < policy.spared_s

    def may_go_first(self, heads: Mapping[str, Job]) -> list[str]:
        """The queues that may have the next turn: a job that may evict others goes before the jobs it may evict.

        Otherwise an evicted job could take the freed devices again and be evicted again, without end.
        """
        urgent = [heads[name].spec.priority for name in heads if self.preempts(name)]
        lenders = {self.view.queues[name].parent for name, job in heads.items() if self._reclaims(job)}
        return [
            name
            for name, job in heads.items()
            if not (urgent and min(urgent) < job.spec.priority)
            and not (self._parent(name) in lenders and not self._reclaims(job) and self._limited(name))
        ] or list(heads)

    def preempts(self, name: str) -> bool:
        """Whether jobs of the queue may evict less urgent jobs."""
        queue = self.view.queues.get(name)
        return queue is not None and queue.preempts is True

    def _parent(self, name: str) -> str | None:
        queue = self.view.queues.get(name)
        return None if queue is None else queue.parent

    def _limited(self, name: str) -> bool:
        return self.view.queues[name].quota.share_milli is not None

    def _reclaims(self, job: Job) -> bool:
        """Whether the job would stay within its queue's own quota. If yes, the queue may reclaim what it has lent."""
        queue = self.view.queues.get(job.spec.queue)
        if queue is None or queue.parent is None or queue.quota.share_milli is None:
            return False
        used = self.admission.used(Scope("queue", queue.name)).milli
        return used + self.admission.demands.least(job).milli <= queue.quota.share_milli

    def _borrows(self, job: Job, lender: str) -> bool:
        """Whether the job's queue is a sibling of the lender and uses more than its own quota."""
        queue = self.view.queues.get(job.spec.queue)
        if queue is None or queue.name == lender or queue.quota.share_milli is None:
            return False
        beside = self.view.queues[lender] in siblings(self.view.queues, queue)
        return beside and self.admission.used(Scope("queue", queue.name)).milli > queue.quota.share_milli


def _takes_back(job: Job, one: Running) -> EvictionReason:
    text = f"queue {job.spec.queue} reclaims for job {job.id} what it had lent to queue {one.job.spec.queue}"
    return EvictionReason(EvictionRule.QUEUE_RECLAIM, text, job.spec.queue)


def _limit_called(scope: Scope, missing: Used) -> str:
    """The limit of a scope of which this much is missing, in a sentence."""
    if scope != SITE:
        return f"the quota of {scope.kind} {scope.name}"
    return "the site's limit on running jobs" if missing.running else "the site's power budget"
