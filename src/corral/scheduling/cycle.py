"""One decision: who starts where, and why everybody else waits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from corral.model.allocation import Placement, Reserve
from corral.model.fit import Misfit
from corral.model.job import Job, Phase, Request
from corral.model.plan import Evict, Hold, Plan, Start, WaitReason
from corral.model.quota import Held
from corral.scheduling.evicting.preemption import Preemption
from corral.scheduling.evicting.victims import EvictionPlan
from corral.scheduling.placing.node_by_node import choose
from corral.scheduling.policy import Backfill, BackfillOrder, Policy
from corral.scheduling.promising.backfill import promise, still_there
from corral.scheduling.queueing.admission import Admission, Scope, ineligible
from corral.scheduling.queueing.fair_share import FairShare
from corral.scheduling.queueing.order import OrderContext
from corral.scheduling.queueing.waiting import Turns
from corral.scheduling.state.draft import HOST_CAUSES, BlockedJob, Choose, Draft, PlacementRequest
from corral.scheduling.state.timeline import SAME_MOMENT_S, Timeline

LOOK_LIMIT = 500
"""A cycle looks at so many groups of alike jobs that cannot start, so that its time has a bound."""

START_LIMIT = 256
"""A cycle starts so many jobs; the next one goes on."""


Shape = tuple[Request, tuple[tuple[str, float], ...], tuple[str, ...]]
"""What decides whether a job fits into what is free: its request, its speeds, the pools shut to it."""


@dataclass(slots=True)
class Cycle:
    """One decision in the making.

    Attributes:
        jobs: every job that has not ended, by id.
        policy_of: how each queue is served.
        admission: who may start at all; follows what is started here.
        ends_of: when who gives back what in a scope's name.
        chooser: how a place is chosen by the scores that a policy ranks nodes by.
        ends_soon: whether somebody is to give back at this moment, give or take a little.
        timeline: what is free when; the draft goes by it as soon as the first job is promised something.
    """

    version: int
    jobs: Mapping[str, Job]
    turns: Turns
    context: OrderContext
    policy_of: Mapping[str, Policy]
    admission: Admission
    fair: FairShare
    draft: Draft
    ends_of: Callable[[Scope], list[tuple[float, Held]]]
    preemption: Preemption
    timeline: Timeline
    ends_soon: Callable[[], bool]
    chooser: Callable[[tuple[tuple[str, float], ...]], Choose]
    evictions: list[Evict] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    reservations: list[Reserve] = field(default_factory=list)
    cleared: list[Reserve] = field(default_factory=list)
    _promised: dict[str, tuple[Reserve, float]] = field(default_factory=dict)
    _renewed: set[str] = field(default_factory=set)
    _due: dict[str, Placement] = field(default_factory=dict)
    _blocked: dict[str, str] = field(default_factory=dict)
    _barred_in: set[str] = field(default_factory=set)
    _full: dict[Shape, Misfit] = field(default_factory=dict)
    _owed_places: dict[Shape, bool] = field(default_factory=dict)
    _empty: Draft | None = None

    def __post_init__(self) -> None:
        self.draft.timeline = self.timeline

    def decide(self) -> Plan:
        """The plan. Jobs are taken in order; what is done for one that has no place is its queue's policy's to say."""
        while (job_id := self.turns.head()) is not None:
            if len(self.starts) >= START_LIMIT or len(self.holds) >= LOOK_LIMIT:
                break
            job = self.jobs[job_id]
            hold = self._barred(job, due=self._give_quota(job_id)) or self._place(job)
            if hold is None:
                self.turns.head_started()
                continue
            self.holds.append(hold)
            self._next_after(job, hold)
        return Plan(
            self.version,
            tuple(self.starts),
            tuple(self.evictions),
            holds=self._unrivalled_holds(),
            reservations=tuple(self.reservations),
            promises=tuple(one for one in self.reservations if one in self.cleared or self._keeps(one.job_id)),
            complete=self.turns.head() is None and not self._reopened(),
        )

    def _unrivalled_holds(self) -> tuple[Hold, ...]:
        """The holds; the first of a queue keeps its turn only where no other queue waits that may come to go first."""
        queues = {self.jobs[hold.job_id].spec.queue for hold in self.holds}.union(self.turns.waiting())
        rivals = {name for name in queues if self.policy_of[name].backfill is not Backfill.CONSERVATIVE}
        if len(rivals) < 2:
            return tuple(self.holds)
        return tuple(
            replace(hold, keeps_turn=False) if hold.keeps_turn and not self._keeps(hold.job_id) else hold
            for hold in self.holds
        )

    def _reopened(self) -> bool:
        """Whether a pool that lent nothing, because an owner waited who now starts, may lend again to others."""
        return any(start.job_id in self.preemption.pools.closing for start in self.starts)

    def _next_after(self, job: Job, hold: Hold) -> None:
        """Whose turn it is when this job has none: limits close its group, a lack of room what its policy says."""
        policy = self.policy_of[job.spec.queue]
        if hold.misfit is None:
            self.turns.skip_group()
        elif policy.strict and self._owed(self.preemption.pools.placement_request(job, inf)):
            self.turns.skip_queue(but=self._renewed)
        elif policy.backfill is Backfill.CONSERVATIVE:
            self.turns.skip_head()
        else:
            self.turns.skip_group()
            if policy.backfill_order is BackfillOrder.SJF:
                self.turns.shortest_first(job.spec.queue)

    def _barred(self, job: Job, *, due: bool) -> Hold | None:
        run_s = self.context.estimate_s(job)
        barrier = self.admission.barrier(job, inf if run_s is None else self.context.now + run_s, due=due)
        if barrier is None:
            return None
        self._barred_in.add(job.spec.queue)
        if barrier.scope is not None:
            if barrier.scope != Scope("queue", job.spec.queue):
                self._take_back_quota(job, inf if run_s is None else run_s)
            self.admission.keep(job, barrier, self.ends_of(barrier.scope), self.context.now)
        return Hold(job.id, barrier.reason, self.turns.position(), behind=barrier.behind, detail=barrier.detail)

    def _place(self, job: Job) -> Hold | None:
        """Start the job if it has a place; else do what keeps its turn, and say why it waits."""
        policy = self.policy_of[job.spec.queue]
        before = self._take_back(job.id)
        run_s = self.context.estimate_s(job)
        duration_s = inf if run_s is None else run_s
        wanted = self._within_quotas(job, self.preemption.pools.placement_request(job, self.context.now + duration_s))
        placement = self._full.get(_shape(wanted)) or self._choose(wanted, policy)
        if isinstance(placement, Misfit) and before is not None and self._is_due(wanted, before):
            placement = before.placement  # a promise that is due goes before what was kept since for others
        if isinstance(placement, Misfit) and self._break_promises(job):
            placement = self._choose(wanted, policy)
        if isinstance(placement, Placement):
            barrier = self.admission.exceeded_only_there(job, placement)
            if barrier is not None:
                return Hold(job.id, barrier.reason, self.turns.position(), detail=barrier.detail)
            loan_milli = self.admission.loan_milli(job, placement)
            self.draft.take(placement.members, wanted.until, job)
            self.admission.started(job, placement)
            self.fair.started(job, placement)
            self.starts.append(Start(job.id, placement, policy.method, loan_milli))
            return None
        hold = self._hold(job, wanted, placement, policy)
        if not self._owed(wanted):
            return hold
        first = job.spec.queue not in self._blocked
        self._blocked.setdefault(job.spec.queue, job.id)
        if first and self._make_room(job, wanted, duration_s):
            return hold
        if policy.backfill is Backfill.NONE:
            self._keep(job, wanted, hold.misfit or placement, None)
        elif policy.backfill is Backfill.CONSERVATIVE or (policy.backfill is Backfill.EASY and first):
            return self._promise(job, wanted, duration_s, hold, before)
        elif policy.backfill is Backfill.EASY:
            self._await(job, wanted, duration_s)
        return hold

    def _await(self, job: Job, wanted: PlacementRequest, duration_s: float) -> None:
        """Keep free what the job gets within a moment, as others of the same moment give back.

        What ends at one time by the plan ends one after the other, and whoever looks in between must not take what was
        to go to a job before it.
        """
        if not self.ends_soon():
            return
        before = self.context.now + SAME_MOMENT_S
        reserve = promise(self.draft, self.timeline, job.id, wanted, duration_s, before=before)
        if reserve is not None:
            self._hold_free(reserve, duration_s)

    def _within_quotas(self, job: Job, wanted: PlacementRequest) -> PlacementRequest:
        request = self.admission.request_within(job)
        return wanted if request is job.spec.request else replace(wanted, request=request)

    def _make_room(self, job: Job, wanted: PlacementRequest, duration_s: float) -> bool:
        """Whether the job has a place once others are gone, who are ended for it; that is its own from here on.

        Others are ended for one job in a cycle. The place is promised, so that whoever comes first when it is free
        does not get it; and of the quotas, what the job will need is taken.
        """
        if self.evictions:
            return False
        found = self.preemption.make_room(self.draft, job, wanted, self.context.now)
        if found is None:
            return False
        self._clear(job, found, duration_s)
        self.admission.started(job, found.placement)
        return True

    def _take_back_quota(self, job: Job, duration_s: float) -> None:
        """End those who borrow what the job's queue has lent, where a limit that they share bars the job for it.

        The place is promised as in `_make_room`; the quota is kept for the job in any case.
        """
        if self.evictions:
            return
        wanted = self.preemption.pools.placement_request(job, self.context.now + duration_s)
        before = self._promised.get(job.id)
        self._take_back(job.id)
        found = self.preemption.take_back(self.draft, job, wanted, self.context.now)
        if found is not None:
            self._clear(job, found, duration_s)
        elif before is not None:
            self._hold_free(*before)

    def _clear(self, job: Job, found: EvictionPlan, duration_s: float) -> None:
        self.evictions += [Evict(one.job.id, job.id, why.words, why.rule, why.lender) for one, why in found.evicted]
        reserve = Reserve(job.id, found.placement, self.context.now)
        self._hold_free(reserve, duration_s)
        self.reservations.append(reserve)
        self.cleared.append(reserve)

    def _owed(self, wanted: PlacementRequest) -> bool:
        """Whether the job would have a place if nobody held anything.

        One that lives on what pools lend keeps nobody from starting: what is not lent it could wait for without end.
        """
        if not wanted.closed_pools:
            return True
        if _shape(wanted) not in self._owed_places:
            request = replace(wanted.request, avoid_jobs=())
            self._empty = self._empty or self.draft.emptied()
            placed = choose(self._empty, replace(wanted, request=request, until=inf))
            self._owed_places[_shape(wanted)] = isinstance(placed, Placement)
        return self._owed_places[_shape(wanted)]

    def _choose(self, wanted: PlacementRequest, policy: Policy) -> Placement | Misfit:
        if policy.ranking:
            return self.chooser(policy.ranking)(self.draft, wanted)
        return choose(self.draft, wanted, policy.prefer)

    def _promise(
        self, job: Job, wanted: PlacementRequest, duration_s: float, hold: Hold, before: Reserve | None
    ) -> Hold:
        """Give the job a reservation, or keep the best node for it when nobody can tell when it will have room.

        It is the one of before where that still stands and nothing sooner is found: a search that takes what looks
        best for each member of a gang may miss it.
        """
        reserve = promise(self.draft, self.timeline, job.id, wanted, duration_s)
        if before is not None and (reserve is None or reserve.start_at > before.start_at):
            reserve = before if self._stands(wanted, before, duration_s) else reserve
        misfit = hold.misfit
        if reserve is None:
            if misfit is not None and not misfit.never:
                gang = wanted.request.gang_size > 1
                self._keep(job, wanted, misfit, None if gang or misfit.node is None else (misfit.node,))
            return hold
        self._hold_free(reserve, duration_s)
        self.reservations.append(reserve)
        keeps_turn = self._keeps(job.id) or self._comes_first(job)
        return replace(hold, expected_start=reserve.start_at, keeps_turn=keeps_turn and not self.admission.limited(job))

    def _comes_first(self, job: Job) -> bool:
        """Whether nobody of its queue can come to go before the job: ranks stay, and no limit bars one ahead of it."""
        queue = job.spec.queue
        return self.policy_of[queue].order.settled and queue not in self._barred_in

    def renew_promises(self, promises: Mapping[str, Reserve]) -> None:
        """Keep free what waiting jobs were promised for good before this cycle, while it is there.

        Of the quotas, too, what those need whose time has come: else whoever was ended for one could take it again.
        """
        for job_id, reserve in sorted(promises.items()):
            job = self.jobs.get(job_id)
            if job is None or job.phase is not Phase.PENDING or job.spec.queue not in self.policy_of:
                continue
            if ineligible(job, self.context.now) is None and self._is_here(reserve.placement):
                run_s = self.context.estimate_s(job)
                late = reserve.start_at < self.context.now
                kept = replace(reserve, start_at=self.context.now) if late else reserve
                self._hold_free(kept, inf if run_s is None else run_s)
                self._renewed.add(job_id)
                if reserve.start_at <= self.context.now:
                    self.admission.started(job, reserve.placement)
                    self._due[job_id] = reserve.placement

    def _keeps(self, job_id: str) -> bool:
        return self.policy_of[self.jobs[job_id].spec.queue].backfill is Backfill.CONSERVATIVE

    def _is_here(self, placement: Placement) -> bool:
        """Whether all its nodes and devices are in the cluster now."""
        return all(
            member.node in self.draft.capacity.names and len(self.draft.slots_of(member)) == len(member.grants)
            for member in placement.members
        )

    def _hold_free(self, reserve: Reserve, duration_s: float) -> None:
        self._promised[reserve.job_id] = (reserve, duration_s)
        for member in reserve.placement.members:
            self.timeline.promise(member, reserve.start_at, reserve.start_at + duration_s)

    def _give_quota(self, job_id: str) -> bool:
        """Whether the job's promise is due; what of the quotas was kept for it then is the job's to take."""
        placement = self._due.pop(job_id, None)
        if placement is not None:
            self.admission.started(self.jobs[job_id], placement, -1)
        return placement is not None

    def _take_back(self, job_id: str) -> Reserve | None:
        """What is promised to a job is free to the job itself, which may now get something sooner."""
        self._give_quota(job_id)
        self._renewed.discard(job_id)
        reserve, duration_s = self._promised.pop(job_id, (None, 0.0))
        if reserve is not None:
            for member in reserve.placement.members:
                self.timeline.withdraw(member, reserve.start_at, reserve.start_at + duration_s)
        return reserve

    def _break_promises(self, job: Job) -> bool:
        """Whether promises had to be taken back from those whom the job might even end; they are promised anew."""
        if not self.preemption.preempts(job.spec.queue):
            return False
        made = {reserve.job_id for reserve in self.reservations}
        less_urgent = [
            one for one in self._promised if one not in made and self.jobs[one].spec.priority > job.spec.priority
        ]
        for job_id in less_urgent:
            self._take_back(job_id)
        return bool(less_urgent)

    def _is_due(self, wanted: PlacementRequest, reserve: Reserve) -> bool:
        """Whether the job is to start now, and nobody holds what it was promised."""
        return reserve.start_at <= self.context.now and still_there(
            self.draft, wanted, reserve.placement, self.draft.free
        )

    def _stands(self, wanted: PlacementRequest, reserve: Reserve, duration_s: float) -> bool:
        """Whether what was promised is still there at its time."""
        start, end = reserve.start_at, reserve.start_at + duration_s
        return still_there(self.draft, wanted, reserve.placement, lambda name: self.timeline.window(name, start, end))

    def _keep(self, job: Job, wanted: PlacementRequest, misfit: Misfit, nodes: tuple[str, ...] | None) -> None:
        self.draft.set_aside(
            BlockedJob(job.id, job.spec.request, misfit.cause in HOST_CAUSES, nodes, wanted.closed_pools)
        )

    def _hold(self, job: Job, wanted: PlacementRequest, misfit: Misfit, policy: Policy) -> Hold:
        """Why the job has no place: resources, or only what is promised to or kept for those ahead."""
        position = self.turns.position()
        free: Placement | Misfit | None = self._full.get(_shape(wanted))
        if free is None:
            free = misfit if self.draft.all_open else self._choose(wanted.ignoring_promises(), policy)
        if isinstance(free, Misfit):
            # What is free only becomes less in a cycle: the next of this shape need not look again.
            self._full[_shape(wanted)] = free
            return Hold(job.id, WaitReason.RESOURCES, position, misfit=free)
        ahead = self.draft.set_aside_for(free)
        if ahead is not None:
            return Hold(job.id, WaitReason.PRIORITY, position, behind=ahead, misfit=misfit)
        promised = (self._blocked.get(job.spec.queue), *self._blocked.values(), *self._promised)
        behind = next((ahead for ahead in promised if ahead is not None), None)
        return Hold(job.id, WaitReason.RESERVATION, position, behind=behind, misfit=misfit)


def _shape(wanted: PlacementRequest) -> Shape:
    return wanted.request, wanted.speeds, wanted.closed_pools
