"""One scheduling cycle: which jobs start where, which are evicted for them, and why the others wait."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from corral.model.allocation import Placement, Promise
from corral.model.fit import Misfit
from corral.model.job import Job, Request
from corral.model.phase import Phase
from corral.model.plan import Evict, Plan, Start, Wait, WaitReason
from corral.model.quota import Scope, Used
from corral.scheduling.evicting.least_urgent import LeastUrgent
from corral.scheduling.evicting.preemption import Preemption
from corral.scheduling.evicting.victims import EvictionPlan
from corral.scheduling.placing.node_by_node import choose
from corral.scheduling.policy import Backfill, BackfillOrder, Policy
from corral.scheduling.promising.backfill import promise, still_there
from corral.scheduling.queueing.admission import Admission, ineligible
from corral.scheduling.queueing.fair_share import FairShare
from corral.scheduling.queueing.order import OrderContext
from corral.scheduling.queueing.waiting import Turns
from corral.scheduling.state.draft import HOST_CAUSES, BlockedJob, Choose, Draft, PlacementRequest
from corral.scheduling.state.neighbours import resident_of
from corral.scheduling.state.timeline import SAME_MOMENT_S, Timeline

LOOK_LIMIT = 500
"""The most groups of similar jobs that cannot start which a cycle looks at, so that its time is bounded."""

START_LIMIT = 256
"""The most jobs that a cycle starts; the next cycle continues."""


_FitKey = tuple[Request, tuple[tuple[str, float], ...], tuple[str, ...]]
"""What decides whether a job fits into what is free: its request, its speeds, and the pools closed to it."""


_FindEvictions = Callable[[Draft, Job, PlacementRequest, float], EvictionPlan | None]


@dataclass(slots=True)
class Cycle:
    """The state of one cycle while it decides.

    Attributes:
        jobs: every job that has not ended, by id.
        turns: in which order jobs are looked at.
        policy_of: the policy of each queue.
        admission: limits and quotas; counts what is started here.
        ends_of: for a scope, the expected ends of its running jobs, each with what it then releases.
        chooser: makes the function that chooses a placement by the scores of a policy.
        ends_soon: whether a running job is expected to end at about this moment.
        timeline: what is free when; the draft uses it as soon as a job is promised something.
        evicted_for: the promises for which jobs are evicted in this cycle.
    """

    version: int
    jobs: Mapping[str, Job]
    turns: Turns
    context: OrderContext
    policy_of: Mapping[str, Policy]
    admission: Admission
    fair: FairShare
    draft: Draft
    ends_of: Callable[[Scope], list[tuple[float, Used]]]
    preemption: Preemption
    timeline: Timeline
    ends_soon: Callable[[], bool]
    chooser: Callable[[tuple[tuple[str, float], ...]], Choose]
    evictions: list[Evict] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    future_starts: list[Promise] = field(default_factory=list)
    evicted_for: list[Promise] = field(default_factory=list)
    _promised: dict[str, tuple[Promise, float]] = field(default_factory=dict)
    _renewed: set[str] = field(default_factory=set)
    _due: dict[str, Placement] = field(default_factory=dict)
    _first_blocked: dict[str, str] = field(default_factory=dict)
    _limited_queues: set[str] = field(default_factory=set)
    _misfits: dict[_FitKey, Misfit] = field(default_factory=dict)
    _fits_when_empty: dict[_FitKey, bool] = field(default_factory=dict)
    _empty_draft: Draft | None = None
    _least_urgent: LeastUrgent = field(init=False)

    def __post_init__(self) -> None:
        self.draft.timeline = self.timeline
        self._least_urgent = LeastUrgent(self.preemption.running, self.admission.scopes_of)

    def decide(self) -> Plan:
        """The plan. Jobs are taken in order; what is done for one that does not fit depends on its queue's policy."""
        while (job_id := self.turns.head()) is not None:
            if len(self.starts) >= START_LIMIT or len(self.waits) >= LOOK_LIMIT:
                break
            job = self.jobs[job_id]
            wait = self._blocked_by_limit(job, due=self._release_due_quota(job_id)) or self._start_or_wait(job)
            if wait is None:
                self.turns.head_started()
                continue
            self.waits.append(wait)
            self._pass_turn(job, wait)
        return Plan(
            self.version,
            tuple(self.starts),
            tuple(self.evictions),
            waits=self._waits_with_turns(),
            future_starts=tuple(self.future_starts),
            promises=tuple(
                one for one in self.future_starts if one in self.evicted_for or self._keeps_every_promise(one.job_id)
            ),
            complete=self.turns.head() is None and not self._pool_reopened(),
        )

    def _waits_with_turns(self) -> tuple[Wait, ...]:
        """What waits, with `keeps_turn` only where no job of another queue may come to go first."""
        if not any(wait.keeps_turn for wait in self.waits):
            return tuple(self.waits)
        queues = {self.jobs[wait.job_id].spec.queue for wait in self.waits}.union(self.turns.waiting())
        rivals = {name for name in queues if self.policy_of[name].backfill is not Backfill.CONSERVATIVE}
        if len(rivals) < 2:
            return tuple(self.waits)
        return tuple(
            replace(wait, keeps_turn=False) if wait.keeps_turn and not self._keeps_every_promise(wait.job_id) else wait
            for wait in self.waits
        )

    def _pool_reopened(self) -> bool:
        """Whether a pool may lend again, because its owner that waited starts in this cycle."""
        return any(start.job_id in self.preemption.pools.closing for start in self.starts)

    def _pass_turn(self, job: Job, wait: Wait) -> None:
        """Skip what need not be looked at behind a job that cannot start: a limit skips its group, else by policy."""
        policy = self.policy_of[job.spec.queue]
        if wait.misfit is None:
            self.turns.skip_group()
        elif policy.strict and self._must_wait_for(self.preemption.pools.placement_request(job, inf)):
            self.turns.skip_queue(but=self._renewed)
        elif policy.backfill is Backfill.CONSERVATIVE:
            self.turns.skip_head()
        else:
            self.turns.skip_group()
            if policy.backfill_order is BackfillOrder.SJF:
                self.turns.shortest_first(job.spec.queue)

    def _blocked_by_limit(self, job: Job, *, due: bool) -> Wait | None:
        """Why a limit or quota keeps a job from starting, None when none does; may have other jobs make room in it."""
        run_s = self.context.estimate_s(job)
        barrier = self.admission.barrier(job, inf if run_s is None else self.context.now + run_s, due=due)
        if barrier is None:
            return None
        self._limited_queues.add(job.spec.queue)
        duration_s = inf if run_s is None else run_s
        made = False
        if barrier.scope is not None and barrier.scope != Scope("queue", job.spec.queue):
            made = self._make_quota(job, duration_s, self.preemption.reclaim)
        if not made and barrier.counted is not None and self._has_less_urgent(job, barrier.counted):
            first = job.spec.queue not in self._first_blocked
            self._make_quota(job, duration_s, partial(self.preemption.lift_limits, first=first))
        if barrier.scope is not None:
            ends, passed = self.ends_of(barrier.scope), self._may_be_passed(job)
            self.admission.keep(job, barrier, ends, self.context.now, may_be_passed=passed)
        return Wait(job.id, barrier.reason, self.turns.position(), behind=barrier.behind, detail=barrier.detail)

    def _start_or_wait(self, job: Job) -> Wait | None:
        """Start the job if it fits; otherwise protect its turn as its policy says, and return why it waits."""
        policy = self.policy_of[job.spec.queue]
        before = self._withdraw_promise(job.id)
        run_s = self.context.estimate_s(job)
        duration_s = inf if run_s is None else run_s
        wanted = self._within_quotas(job, self.preemption.pools.placement_request(job, self.context.now + duration_s))
        placement = self._misfits.get(_fit_key(wanted)) or self._choose(wanted, policy)
        if isinstance(placement, Misfit) and before is not None and self._is_due(wanted, before):
            placement = before.placement  # a promise that is due goes before what was set aside since for others
        if isinstance(placement, Misfit) and self._withdraw_less_urgent(job):
            placement = self._choose(wanted, policy)
        if isinstance(placement, Misfit):
            placement = self._pass(job, wanted, policy) or placement
        if isinstance(placement, Placement):
            barrier = self.admission.exceeded_only_there(job, placement)
            if barrier is not None:
                return Wait(job.id, barrier.reason, self.turns.position(), detail=barrier.detail)
            loan_milli = self.admission.loan_milli(job, placement)
            self.draft.take(placement.members, wanted.until, resident_of(job))
            self.admission.started(job, placement)
            self.fair.started(job, placement)
            self.starts.append(Start(job.id, placement, policy.method, loan_milli, job.spec))
            return None
        wait = self._wait(job, wanted, placement, policy)
        if not self._must_wait_for(wanted):
            return wait
        first = job.spec.queue not in self._first_blocked
        self._first_blocked.setdefault(job.spec.queue, job.id)
        if first and self._evict_for(job, wanted, duration_s):
            return wait
        if policy.backfill is Backfill.NONE:
            self._set_aside(job, wanted, wait.misfit or placement, None)
        elif policy.backfill is Backfill.CONSERVATIVE or (policy.backfill is Backfill.EASY and first):
            return self._promise_start(job, wanted, duration_s, wait, before)
        elif policy.backfill is Backfill.EASY:
            self._set_aside_for_imminent(job, wanted, duration_s)
        return wait

    def _pass(self, job: Job, wanted: PlacementRequest, policy: Policy) -> Placement | None:
        """A place for a job with a short time limit on what is set aside for jobs whose start nobody can predict."""
        if not self.admission.limits.may_pass(job.spec.time_limit_s) or not self.draft.may_be_passed:
            return None
        if _fit_key(wanted) in self._misfits:
            return None
        placement = self._choose(replace(wanted, passes=True), policy)
        return placement if isinstance(placement, Placement) else None

    def _may_be_passed(self, job: Job) -> bool:
        """Whether jobs with a short time limit may start before this one, should nobody know when it starts."""
        return self.admission.limits.may_be_passed(job.waits_since, self.context.now)

    def _set_aside_for_imminent(self, job: Job, wanted: PlacementRequest, duration_s: float) -> None:
        """Promise the job what becomes free within SAME_MOMENT_S, if running jobs are expected to end now.

        Jobs that are planned to end together in fact end one after another. A job that is looked at in between must not
        take what was meant for a job ahead of it.
        """
        if not self.ends_soon():
            return
        before = self.context.now + SAME_MOMENT_S
        promised = promise(self.draft, self.timeline, job.id, wanted, duration_s, before=before)
        if promised is not None:
            self._record_promise(promised, duration_s)

    def _within_quotas(self, job: Job, wanted: PlacementRequest) -> PlacementRequest:
        request = self.admission.request_within(job)
        return wanted if request is job.spec.request else replace(wanted, request=request)

    def _evict_for(self, job: Job, wanted: PlacementRequest, duration_s: float) -> bool:
        """Evict others for the job, if that makes it fit; returns whether it does. At most once in a cycle.

        The place is promised to the job and counted to its quotas, so that no other job gets it meanwhile.
        """
        if self.evictions:
            return False
        found = self.preemption.make_room(self.draft, job, wanted, self.context.now)
        if found is None:
            return False
        self._evict(job, found, duration_s)
        self.admission.started(job, found.placement)
        return True

    def _has_less_urgent(self, job: Job, scope: Scope) -> bool:
        """Whether the job's queue preempts, and a less urgent job counts against this limit."""
        if not self.preemption.preempts(job.spec.queue):
            return False
        priority, least = job.spec.priority, self._least_urgent
        # All first, because where they are equally urgent nobody need be looked at closely.
        if least.of_all is None or least.of_all <= priority:
            return False
        return least.by_scope.get(scope, priority) > priority

    def _make_quota(self, job: Job, duration_s: float, find: _FindEvictions) -> bool:
        """Evict the jobs that are found to keep the job from starting by what they count against its limits.

        The place is promised to the job and counted to its quotas, as in `_evict_for`. Returns whether there is one.
        """
        if self.evictions:
            return False
        wanted = self.preemption.pools.placement_request(job, self.context.now + duration_s)
        before = self._promised.get(job.id)
        self._withdraw_promise(job.id)
        found = find(self.draft, job, wanted, self.context.now)
        if found is not None:
            self._evict(job, found, duration_s)
            self.admission.started(job, found.placement)
        elif before is not None:
            self._record_promise(*before)
        return found is not None

    def _evict(self, job: Job, found: EvictionPlan, duration_s: float) -> None:
        self.evictions += [Evict(one.job.id, job.id, why.text, why.rule, why.lender) for one, why in found.evicted]
        promised = Promise(job.id, found.placement, self.context.now)
        self._record_promise(promised, duration_s)
        self.future_starts.append(promised)
        self.evicted_for.append(promised)

    def _must_wait_for(self, wanted: PlacementRequest) -> bool:
        """Whether jobs behind may have to wait for this one: it would fit if nothing were allocated.

        A job that fits only on devices which pools lend delays nobody: it could wait for these for ever.
        """
        if not wanted.closed_pools:
            return True
        if _fit_key(wanted) not in self._fits_when_empty:
            request = wanted.request.without_neighbours()
            self._empty_draft = self._empty_draft or self.draft.emptied()
            placed = choose(self._empty_draft, replace(wanted, request=request, until=inf))
            self._fits_when_empty[_fit_key(wanted)] = isinstance(placed, Placement)
        return self._fits_when_empty[_fit_key(wanted)]

    def _choose(self, wanted: PlacementRequest, policy: Policy) -> Placement | Misfit:
        if policy.ranking:
            return self.chooser(policy.ranking)(self.draft, wanted)
        return choose(self.draft, wanted, policy.prefer)

    def _promise_start(
        self, job: Job, wanted: PlacementRequest, duration_s: float, wait: Wait, before: Promise | None
    ) -> Wait:
        """Promise the job a start, or set the best node aside for it when its start cannot be predicted.

        An earlier promise is kept if it is still possible and nothing sooner is found: the search is greedy for each
        member of a gang, and may miss it.
        """
        promised = promise(self.draft, self.timeline, job.id, wanted, duration_s)
        if before is not None and (promised is None or promised.start_at > before.start_at):
            promised = before if self._still_possible(wanted, before, duration_s) else promised
        misfit = wait.misfit
        if promised is None:
            if misfit is not None and misfit.capacity_helps:
                gang = wanted.request.gang_size > 1
                nodes = None if gang or misfit.node is None else (misfit.node,)
                self._set_aside(job, wanted, misfit, nodes, may_be_passed=self._may_be_passed(job))
            return wait
        self._record_promise(promised, duration_s)
        self.future_starts.append(promised)
        keeps_turn = self._keeps_every_promise(job.id) or self._stays_first(job)
        return replace(
            wait, expected_start=promised.start_at, keeps_turn=keeps_turn and not self.admission.limited(job)
        )

    def _stays_first(self, job: Job) -> bool:
        """Whether no job of its queue can come to go first: ranks do not change, and no limit blocks a job ahead."""
        queue = job.spec.queue
        return self.policy_of[queue].order.settled and queue not in self._limited_queues

    def renew_promises(self, promises: Mapping[str, Promise]) -> None:
        """Keep the promises of earlier cycles, as long as their nodes and devices exist.

        What promises that are due need is counted to their quotas too: otherwise an evicted job could take it again.
        """
        for job_id, promised in sorted(promises.items()):
            job = self.jobs.get(job_id)
            if job is None or job.phase is not Phase.PENDING or job.spec.queue not in self.policy_of:
                continue
            if ineligible(job, self.context.now) is None and self._nodes_exist(promised.placement):
                run_s = self.context.estimate_s(job)
                late = promised.start_at < self.context.now
                kept = replace(promised, start_at=self.context.now) if late else promised
                self._record_promise(kept, inf if run_s is None else run_s)
                self._renewed.add(job_id)
                if promised.start_at <= self.context.now:
                    self.admission.started(job, promised.placement)
                    self._due[job_id] = promised.placement

    def _keeps_every_promise(self, job_id: str) -> bool:
        return self.policy_of[self.jobs[job_id].spec.queue].backfill is Backfill.CONSERVATIVE

    def _nodes_exist(self, placement: Placement) -> bool:
        """Whether all nodes and devices of the placement are in the cluster now."""
        return all(
            member.node in self.draft.capacity.names and len(self.draft.slots_of(member)) == len(member.grants)
            for member in placement.members
        )

    def _record_promise(self, promised: Promise, duration_s: float) -> None:
        self._promised[promised.job_id] = (promised, duration_s)
        for member in promised.placement.members:
            self.timeline.promise(member, promised.start_at, promised.start_at + duration_s)

    def _release_due_quota(self, job_id: str) -> bool:
        """Whether the job's promise is due. If so, the quota that was counted for it is free for it to use."""
        placement = self._due.pop(job_id, None)
        if placement is not None:
            self.admission.started(self.jobs[job_id], placement, -1)
        return placement is not None

    def _withdraw_promise(self, job_id: str) -> Promise | None:
        """Withdraw the job's promise while it is looked at, as it may now start sooner; returns the promise."""
        self._release_due_quota(job_id)
        self._renewed.discard(job_id)
        promised, duration_s = self._promised.pop(job_id, (None, 0.0))
        if promised is not None:
            for member in promised.placement.members:
                self.timeline.withdraw(member, promised.start_at, promised.start_at + duration_s)
        return promised

    def _withdraw_less_urgent(self, job: Job) -> bool:
        """Withdraw the promises of less urgent jobs, if the job's queue preempts; returns whether there were any.

        The job could evict them anyway. They are promised another start when their turn comes.
        """
        if not self.preemption.preempts(job.spec.queue):
            return False
        made = {promised.job_id for promised in self.future_starts}
        less_urgent = [
            one for one in self._promised if one not in made and self.jobs[one].spec.priority > job.spec.priority
        ]
        for job_id in less_urgent:
            self._withdraw_promise(job_id)
        return bool(less_urgent)

    def _is_due(self, wanted: PlacementRequest, promised: Promise) -> bool:
        """Whether the promised start is now, and what was promised is free."""
        return promised.start_at <= self.context.now and still_there(
            self.draft, wanted, promised.placement, self.draft.free
        )

    def _still_possible(self, wanted: PlacementRequest, promised: Promise, duration_s: float) -> bool:
        """Whether what was promised will still be free at its time."""
        start, end = promised.start_at, promised.start_at + duration_s
        return still_there(self.draft, wanted, promised.placement, lambda name: self.timeline.window(name, start, end))

    def _set_aside(
        self,
        job: Job,
        wanted: PlacementRequest,
        misfit: Misfit,
        nodes: tuple[str, ...] | None,
        *,
        may_be_passed: bool = False,
    ) -> None:
        host = misfit.cause in HOST_CAUSES
        self.draft.set_aside(
            BlockedJob(job.id, job.spec.request, host, nodes, wanted.closed_pools, may_be_passed=may_be_passed)
        )

    def _wait(self, job: Job, wanted: PlacementRequest, misfit: Misfit, policy: Policy) -> Wait:
        """Why the job does not fit: too little is free, or what is free is promised to or set aside for jobs ahead."""
        position = self.turns.position()
        free: Placement | Misfit | None = self._misfits.get(_fit_key(wanted))
        if free is None:
            free = misfit if self.draft.all_open else self._choose(wanted.ignoring_promises(), policy)
        if isinstance(free, Misfit):
            # Free capacity only shrinks in a cycle, so later jobs with this key need not be tried again.
            self._misfits[_fit_key(wanted)] = free
            return Wait(job.id, WaitReason.RESOURCES, position, misfit=free)
        ahead = self.draft.set_aside_for(free, passes=self.admission.limits.may_pass(job.spec.time_limit_s))
        if ahead is not None:
            return Wait(job.id, WaitReason.PRIORITY, position, behind=ahead, misfit=misfit)
        promised = (self._first_blocked.get(job.spec.queue), *self._first_blocked.values(), *self._promised)
        behind = next((ahead for ahead in promised if ahead is not None), None)
        return Wait(job.id, WaitReason.RESERVATION, position, behind=behind, misfit=misfit)


def _fit_key(wanted: PlacementRequest) -> _FitKey:
    return wanted.request, wanted.speeds, wanted.closed_pools
