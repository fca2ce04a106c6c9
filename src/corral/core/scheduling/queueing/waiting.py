"""The waiting jobs by queue, in groups of similar jobs, and the order in which a cycle looks at them."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from operator import itemgetter

from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.plan import Group, group_of
from corral.core.scheduling.queueing.lazy_merge import GroupCursor, LazyMerge, Place
from corral.core.scheduling.queueing.order import OrderContext, Ranking

GroupKey = tuple[Group, str | None]
"""A group, and a job id if the order is not `alike`: each job is then a group of its own."""

_KeyedGroup = tuple[GroupKey, list[Place]]


ALIKE = OrderContext(now=0.0, estimate_s=lambda _: None)
"""The context for ranking jobs within a group. Their estimates are equal and therefore left out."""


@dataclass(slots=True)
class WaitingQueue:
    """The waiting jobs of one queue: groups, each sorted by a rank that does not change while the jobs wait.

    If the order is not settled, that rank holds only within a group, and `Turns` ranks the heads of groups anew.
    `places` has the rank and id of every job, sorted.
    """

    ranking: Ranking
    places: list[Place] = field(default_factory=list)
    _groups: dict[GroupKey, _KeyedGroup] = field(default_factory=dict)
    _place_by_job: dict[str, tuple[_KeyedGroup, Place]] = field(default_factory=dict)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._place_by_job

    def join(self, job: Job, context: OrderContext) -> None:
        """Add a job."""
        order = self.ranking.order
        key = (group_of(job), None if order.alike else job.id)
        group = self._groups.setdefault(key, (key, []))
        among = context if order.settled else ALIKE
        rank = self.ranking.rank(job, among) if order.settled or order.alike else (job.sequence,)
        place = (rank, job.id)
        insort(group[1], place)
        insort(self.places, place)
        self._place_by_job[job.id] = (group, place)

    def leave(self, job_id: str) -> None:
        """Remove a job, if it is in the queue."""
        found = self._place_by_job.pop(job_id, None)
        if found is not None:
            (key, ranked), place = found
            del self.places[bisect_left(self.places, place)]
            del ranked[bisect_left(ranked, place)]
            if not ranked:
                del self._groups[key]

    def groups(self) -> list[list[Place]]:
        """The groups, each sorted."""
        return [ranked for _, ranked in self._groups.values()]

    def in_order(self, jobs: Mapping[str, Job], context: OrderContext) -> list[Place]:
        """All jobs of the queue, by their ranks in this context."""
        if self.ranking.order.settled:
            return self.places
        return sorted((self.ranking.rank(jobs[job_id], context), job_id) for _, job_id in self.places)

    def place_of(self, job: Job, jobs: Mapping[str, Job], context: OrderContext) -> int:
        """The position that a job has in the queue, or would have, from 1."""
        place = (self.ranking.rank(job, context), job.id)
        return 1 + bisect_left(self.in_order(jobs, context), place)

    def position(self, job_id: str) -> int:
        """The job's position, from 1, in a queue whose order is settled."""
        return 1 + bisect_left(self.places, self._place_by_job[job_id][1])


@dataclass(slots=True)
class WaitingJobs:
    """The waiting jobs of all queues.

    A job on hold or with unmet dependencies is in no queue. A job with a backoff or begin time joins its queue when
    that time is over.
    """

    ranking_of: Callable[[str], Ranking]
    queues: dict[str, WaitingQueue] = field(default_factory=dict)
    _later: dict[str, Job] = field(default_factory=dict)
    _times: list[tuple[float, str]] = field(default_factory=list)
    _awake_at: float = -inf
    _queue_of: dict[str, str] = field(default_factory=dict)

    def follow(self, job: Job, context: OrderContext) -> None:
        """Apply the current state of a job."""
        self.queue_named(job.spec.queue)
        self._leave(job.id)
        before = self._later.pop(job.id, None)
        if before is not None:
            del self._times[bisect_left(self._times, _time_of(before))]
        if job.phase is not Phase.PENDING or job.held or job.waits_for:
            return
        if job.eligible_at is not None:
            self._later[job.id] = job
            insort(self._times, _time_of(job))
        if job.eligible_at is None or job.eligible_at <= self._awake_at:
            self._join(job, context)

    def queue_named(self, name: str) -> WaitingQueue:
        """The waiting jobs of one queue."""
        if name not in self.queues:
            self.queues[name] = WaitingQueue(self.ranking_of(name))
        return self.queues[name]

    def wake(self, context: OrderContext) -> None:
        """Add jobs whose begin time or backoff is over. If the clock went back, remove those that must wait again."""
        before, self._awake_at = self._awake_at, context.now
        first, last = (bisect_right(self._times, at, key=itemgetter(0)) for at in sorted((before, context.now)))
        for _, job_id in self._times[first:last]:
            job = self._later[job_id]
            if context.now > before:
                self._join(job, context)
            else:
                self._leave(job_id)

    def _join(self, job: Job, context: OrderContext) -> None:
        self._queue_of[job.id] = job.spec.queue
        self.queue_named(job.spec.queue).join(job, context)

    def _leave(self, job_id: str) -> None:
        """Remove a job from its current queue, which may differ from the queue in its spec."""
        queue = self._queue_of.pop(job_id, None)
        if queue is not None:
            self.queues[queue].leave(job_id)


def _time_of(job: Job) -> tuple[float, str]:
    return (inf if job.eligible_at is None else job.eligible_at, job.id)


MayGoFirst = Callable[[Mapping[str, Job]], list[str]]
"""Returns the queues that may go first, of those with a waiting job, regardless of their use."""


class Turns:
    """The next turn goes to the queue with least use for its weight, of those that may go first: to its lowest rank."""

    def __init__(
        self,
        queues: Mapping[str, WaitingQueue],
        jobs: Mapping[str, Job],
        context: OrderContext,
        holding: Callable[[str], float],
        may_go_first: MayGoFirst = list,
    ) -> None:
        self._jobs = jobs
        self._holding = holding
        self._may_go_first = may_go_first
        self._queues = {name: QueueTurns(queues[name], jobs, context) for name in sorted(queues) if queues[name].places}
        self._current: QueueTurns | None = None

    def head(self) -> str | None:
        """The id of the job whose turn it is; None if no job is left."""
        if self._current is None:
            heads = {name: self._jobs[job_id] for name, one in self._queues.items() if (job_id := one.head())}
            if not heads:
                return None
            names = self._may_go_first(heads) if len(heads) > 1 else list(heads)
            first = min(names, key=lambda name: (self._holding(name), name)) if len(names) > 1 else names[0]
            self._current = self._queues[first]
            return heads[first].id
        return self._current.head()

    def waiting(self) -> list[str]:
        """The queues that contain a job without a turn yet."""
        return [name for name, one in self._queues.items() if one.head() is not None]

    def position(self) -> int:
        """The head's position in its queue, from 1, without the jobs that start in this cycle."""
        assert self._current is not None, "there is no head"
        return self._current.position()

    def head_started(self) -> None:
        """Record that the head starts. The next job of its group takes its place."""
        self._had_its_turn().head_started()

    def skip_head(self) -> None:
        """Skip only the head. The next job of its group has its turn."""
        self._had_its_turn().skip_head()

    def skip_group(self) -> None:
        """Skip the head and the rest of its group: similar jobs have no place either."""
        self._had_its_turn().skip_group()

    def skip_queue(self, *, but: Collection[str] = ()) -> None:
        """Skip all other jobs of the head's queue in this cycle, except the jobs in `but`."""
        self._had_its_turn().close(but)

    def _had_its_turn(self) -> "QueueTurns":
        """The queue of the head. After this call, another queue may go first."""
        assert self._current is not None, "there is no head"
        current, self._current = self._current, None
        return current

    def shortest_first(self, queue: str) -> None:
        """Order the remaining turns of the queue by estimated run time."""
        self._queues[queue].shortest_first()


class QueueTurns:
    """The turns of one queue: merges its sorted groups, comparing only the groups' heads."""

    def __init__(self, queue: WaitingQueue, jobs: Mapping[str, Job], context: OrderContext) -> None:
        self._queue = queue
        self._jobs = jobs
        self._context = context
        self._settled = queue.ranking.order.settled
        self._ranks_change = not self._settled and queue.ranking.order.alike
        self._cursors = [GroupCursor(ranked) for ranked in queue.groups()]
        self._started = self._closed = 0
        self._by_estimate = False
        self._heads = self._merged()
        if queue.ranking.fault is not None:  # a fault during the merge changes the order: merge again
            self._heads = self._merged()

    def head(self) -> str | None:
        """The id of the job whose turn it is; None if no job is left."""
        head = self._heads.head()
        return None if head is None else head[1]

    def position(self) -> int:
        """The head's position without the jobs that start now: exact in a settled order, else counted in groups."""
        head = self._heads.head() if self._settled else None
        return self._closed + 1 if head is None else self._queue.position(head[1]) - self._started

    def head_started(self) -> None:
        """Record that the head starts. The next job of its group takes its place."""
        self._started += 1
        self._heads.cursor().advance()

    def skip_head(self) -> None:
        """Skip only the head. The next job of its group has its turn."""
        self._closed += 1
        self._heads.cursor().advance()

    def skip_group(self) -> None:
        """Skip the head and the rest of its group: similar jobs have no place either."""
        self._closed += 1
        self._heads.cursor().close()

    def close(self, but: Collection[str]) -> None:
        """End the turns of all jobs, except the jobs in `but`."""
        self._cursors = [GroupCursor([place]) for place in self._queue.places if place[1] in but] if but else []
        self._heads = self._merged()

    def shortest_first(self) -> None:
        """Order the remaining turns by estimated run time; jobs without an estimate come last."""
        if not self._by_estimate:
            self._by_estimate = True
            self._heads = self._merged()

    def _merged(self) -> LazyMerge:
        """All groups, merged. If starts change ranks (fair share): by user, then by project, then all projects."""
        if not self._ranks_change:
            return LazyMerge(self._cursors, self._place_in(self._context), ranks_change=False)
        users: dict[tuple[str, str], list[GroupCursor]] = {}
        for cursor in self._cursors:
            head = cursor.head()
            if head is not None:
                spec = self._jobs[head[1]].spec
                users.setdefault((spec.project, spec.user), []).append(cursor)
        projects: dict[str, list[LazyMerge]] = {}
        alone, beside = self._place_in(self._below_level(2)), self._place_in(self._below_level(1))
        for (project, _), cursors in users.items():
            projects.setdefault(project, []).append(LazyMerge(cursors, alone, ranks_change=False))
        within = [LazyMerge(some, beside, ranks_change=True) for some in projects.values()]
        return LazyMerge(within, self._place_in(self._context), ranks_change=True)

    def _below_level(self, levels: int) -> OrderContext:
        """The context for jobs that share the first `levels` parts of `over_use`: the project, then the user."""
        over_use = self._context.over_use
        return replace(self._context, over_use=lambda job: over_use(job)[levels:])

    def _place_in(self, context: OrderContext) -> Callable[[Place], Place]:
        def place_now(place: Place) -> Place:
            rank, job_id = place
            if not self._settled:
                rank = self._queue.ranking.rank(self._jobs[job_id], context)
            if self._by_estimate:
                estimate_s = context.estimate_s(self._jobs[job_id])
                rank = (inf if estimate_s is None else estimate_s, *rank)
            return rank, job_id

        return place_now
