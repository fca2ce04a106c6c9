"""One scheduling cycle: a snapshot goes in, a plan comes out.

Each job that may start goes through these stages when its turn comes. No stage knows of a later one.

1. Next job: queues and ranks decide (`queueing/`). A limit or a quota may block the job.
2. Place: the job starts on free devices, if they are not kept for a job ahead of it (`placing/`).
3. Eviction: running jobs that its queue or pool lets it evict are stopped, if the job then fits (`evicting/`).
4. Promise: a latest start, or devices set aside, as the backfill of its queue says (`promising/`).
5. Reason: why the job waits. The jobs that wait for the same reason lose their turns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Placement, Promise
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.fit import Misfit
from corral.core.model.placing.plan import Plan, Start, Wait, WaitReason
from corral.core.model.queues.quota import Scope, Used
from corral.core.scheduling.evicting.giving_way import GivingWay, Way
from corral.core.scheduling.placing.places import Places
from corral.core.scheduling.policy import BackfillOrder, Policy
from corral.core.scheduling.promising.promises import Promises
from corral.core.scheduling.queueing.admission import Admission
from corral.core.scheduling.queueing.fair_share import FairShare
from corral.core.scheduling.queueing.waiting import Turns
from corral.core.scheduling.state.draft import PlacementRequest
from corral.core.scheduling.state.neighbours import resident_of
from corral.core.scheduling.turn import Turn

LOOK_LIMIT = 500
"""The most groups of similar jobs that a cycle finds unable to start. It bounds the time of a cycle."""

START_LIMIT = 256
"""The most jobs that a cycle starts; the next cycle continues."""


class Obstacle(NamedTuple):
    """The reason why a job has no place: too little is free, or free devices are kept for the job it is `behind`."""

    reason: WaitReason
    misfit: Misfit
    behind: str | None = None


@dataclass(slots=True)
class Cycle:
    """The stages of one cycle, and their decisions so far.

    Attributes:
        jobs: every job that has not ended, by id.
        policy_of: the policy of each queue.
        run_s: the expected run time of a job in seconds, infinity if unknown.
        ends_of: returns for a scope the expected ends of its running jobs, each with what it then releases.
        limited: queues in which a limit or a quota has blocked a job.
    """

    version: int
    now: float
    jobs: Mapping[str, Job]
    policy_of: Mapping[str, Policy]
    run_s: Callable[[Job], float]
    turns: Turns
    admission: Admission
    ends_of: Callable[[Scope], Iterable[tuple[float, Used]]]
    fair: FairShare
    places: Places
    giving_way: GivingWay
    promises: Promises
    starts: list[Start] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    limited: set[str] = field(default_factory=set)

    def decide(self, earlier: Mapping[str, Promise]) -> Plan:
        """Make the plan. It keeps the promises of `earlier` cycles."""
        self.promises.renew(earlier, self.run_s)
        while (turn := self._next()) is not None:
            wait = self._barred(turn) or self._start_or_wait(turn)
            if wait is None:
                self.turns.head_started()
            else:
                self.waits.append(wait)
                self._skip_behind(turn, wait)
        self._empty_a_node()
        return self._plan()

    # 1. Next job.

    def _next(self) -> Turn | None:
        job_id = self.turns.head()
        if job_id is None or len(self.starts) >= START_LIMIT or len(self.waits) >= LOOK_LIMIT:
            return None
        job, run_s = self.jobs[job_id], self.run_s(self.jobs[job_id])
        first = job.spec.queue not in self.promises.first_blocked
        return Turn(job, self.policy_of[job.spec.queue], run_s, self.now + run_s, first)

    def _barred(self, turn: Turn) -> Wait | None:
        """The wait if a limit or a quota blocks the job, else None. Evicts other jobs for it if a rule allows."""
        job = turn.job
        barrier = self.admission.barrier(job, turn.until, due=self.promises.release_due(job.id))
        if barrier is None:
            return None
        self.limited.add(job.spec.queue)
        if ways := self.giving_way.past_a_limit(turn, barrier):
            earlier = self.promises.withdraw(job.id)
            wanted = self.places.pools.placement_request(job, turn.until)
            if not self._make_room(turn, wanted, ways) and earlier is not None:
                self.promises.hold(earlier, turn.run_s)
        if barrier.scope is not None:
            passed = self.admission.limits.may_be_passed(job.waits_since, self.now)
            self.admission.kept.keep(job, barrier, self.ends_of(barrier.scope), self.now, may_be_passed=passed)
        return Wait(job.id, barrier.reason, self.turns.position(), behind=barrier.behind, detail=barrier.detail)

    def _start_or_wait(self, turn: Turn) -> Wait | None:
        # The job's own promise is withdrawn for the time of its turn: the job may now start sooner.
        earlier = self.promises.withdraw(turn.job.id)
        wanted = self.places.request(turn.job, turn.until)
        found = self._place(turn, wanted, earlier)
        if isinstance(found, Placement):
            return self._start(turn, wanted, found)
        obstacle, promised = self._obstacle(turn, wanted, found), None
        if self.places.exist(wanted):
            self.promises.first_blocked.setdefault(turn.job.spec.queue, turn.job.id)
            if not self._make_room(turn, wanted, self.giving_way.to_a_place(turn)):
                promised = self.promises.protect(turn, wanted, obstacle.misfit, earlier)
        return self._why_not(turn, obstacle, promised)

    # 2. Place.

    def _place(self, turn: Turn, wanted: PlacementRequest, earlier: Promise | None) -> Placement | Misfit:
        """A place that is open to the job, was promised to it for now, or is kept for jobs that it may pass."""
        found = self.places.find(wanted, turn.policy)
        if isinstance(found, Misfit) and earlier is not None and self.promises.is_due(wanted, earlier):
            return earlier.placement
        preempts = isinstance(found, Misfit) and self.giving_way.rules.preempts(turn.job.spec.queue)
        if preempts and self.promises.withdraw_less_urgent(turn.job):
            found = self.places.search(wanted, turn.policy)
        return found if isinstance(found, Placement) else self.places.passing(turn, wanted) or found

    def _start(self, turn: Turn, wanted: PlacementRequest, placement: Placement) -> Wait | None:
        job = turn.job
        barrier = self.admission.exceeded_only_there(job, placement)
        if barrier is not None:
            return Wait(job.id, barrier.reason, self.turns.position(), detail=barrier.detail)
        loan_milli = self.admission.loan_milli(job, placement)
        self.places.draft.take(placement.members, wanted.until, resident_of(job))
        self.admission.started(job, placement)
        self.fair.started(job, placement)
        self.starts.append(Start(job.id, placement, turn.policy.method, loan_milli, job.spec))
        return None

    def _obstacle(self, turn: Turn, wanted: PlacementRequest, misfit: Misfit) -> Obstacle:
        """The obstacle that the job waits for, before any eviction or promise."""
        free = self.places.ignoring_promises(wanted, turn.policy, misfit)
        if isinstance(free, Misfit):
            return Obstacle(WaitReason.RESOURCES, free)
        ahead = self.places.kept_for(turn.job, free)
        if ahead is not None:
            return Obstacle(WaitReason.PRIORITY, misfit, ahead)
        return Obstacle(WaitReason.RESERVATION, misfit, self.promises.ahead_of(turn.job.spec.queue))

    # 3. Eviction. 4. Promise.

    def _make_room(self, turn: Turn, wanted: PlacementRequest, ways: Sequence[Way]) -> bool:
        """Evict other jobs for this one. Their place is promised to it, and no other job gets the place meanwhile."""
        placement = self.giving_way.go(ways, turn.job, wanted)
        if placement is not None:
            self.promises.after_evictions(turn, placement)
            self._keep_new_places()
        return placement is not None

    def _empty_a_node(self) -> None:
        """Move the jobs of a nearly empty node, if jobs may be moved and every job that can start has started."""
        if not self.starts and not any(self._moved(wait.job_id) for wait in self.waits):
            self.giving_way.empty_a_node()
            self._keep_new_places()

    def _moved(self, job_id: str) -> bool:
        eviction = self.jobs[job_id].eviction
        return eviction is not None and eviction.rule is EvictionRule.MOVE

    def _keep_new_places(self) -> None:
        for job, placement in self.giving_way.new_places:
            self.promises.after_move(job, placement, self.run_s(job))

    # 5. Reason.

    def _why_not(self, turn: Turn, obstacle: Obstacle, promised: Promise | None) -> Wait:
        """The wait of the job, with its reason. The job keeps its turn if no job of its queue can come to go first."""
        job, (reason, misfit, behind) = turn.job, obstacle
        wait = Wait(job.id, reason, self.turns.position(), behind=behind, misfit=misfit)
        if promised is None:
            return wait
        stays = turn.policy.keeps_promises or (turn.policy.order.settled and job.spec.queue not in self.limited)
        keeps_turn = stays and not self.admission.limited(job)
        return replace(wait, expected_start=promised.start_at, keeps_turn=keeps_turn)

    def _skip_behind(self, turn: Turn, wait: Wait) -> None:
        """Skip the jobs behind a waiting one that need no turn: its group if a limit blocks it, else by the policy."""
        if wait.misfit is None:
            self.turns.skip_group()
        elif turn.policy.strict and self.places.exist(self.places.pools.placement_request(turn.job, inf)):
            self.turns.skip_queue(but=self.promises.renewed)
        elif turn.policy.keeps_promises:
            self.turns.skip_head()
        else:
            self.turns.skip_group()
            if turn.policy.backfill_order is BackfillOrder.SJF:
                self.turns.shortest_first(turn.job.spec.queue)

    def _plan(self) -> Plan:
        """The plan. It is incomplete if a pool may lend again because the job of its owner that waited now starts."""
        made, evicted_for = self.promises.made, self.promises.evicted_for
        reopened = any(start.job_id in self.places.pools.closing for start in self.starts)
        return Plan(
            self.version,
            tuple(self.starts),
            tuple(self.giving_way.evictions),
            waits=self._kept_turns(),
            future_starts=tuple(made),
            promises=tuple(one for one in made if one in evicted_for or self._keeps_promises(one.job_id)),
            complete=self.turns.head() is None and not reopened,
        )

    def _kept_turns(self) -> tuple[Wait, ...]:
        """The waits; `keeps_turn` stays set only if no job of another queue may come to go first."""
        if not any(wait.keeps_turn for wait in self.waits):
            return tuple(self.waits)
        queues = {self.jobs[wait.job_id].spec.queue for wait in self.waits}.union(self.turns.waiting())
        if sum(not self.policy_of[name].keeps_promises for name in queues) < 2:
            return tuple(self.waits)
        return tuple(replace(one, keeps_turn=one.keeps_turn and self._keeps_promises(one.job_id)) for one in self.waits)

    def _keeps_promises(self, job_id: str) -> bool:
        return self.policy_of[self.jobs[job_id].spec.queue].keeps_promises
