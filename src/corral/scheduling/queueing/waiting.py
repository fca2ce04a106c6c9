"""The jobs that wait, in one line for each queue, and there in groups of alike ones."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from operator import itemgetter

from corral.model.job import Job, Phase
from corral.model.plan import Group, group_of
from corral.scheduling.queueing.best_first import GroupCursor, LazyMerge, Place
from corral.scheduling.queueing.order import OrderContext, Ranking

GroupKey = tuple[Group, str | None]
"""A group, and for an order that is not alike within groups the one job that is its own group."""


ALIKE = OrderContext(now=0.0, estimate_s=lambda _: None)
"""What alike jobs are ranked by among each other: what is known of one of them is known of all."""


@dataclass(slots=True)
class WaitingQueue:
    """One queue's jobs: groups sorted by a rank that does not change while they wait.

    For an order that is not settled that rank is the order's among alike jobs only, if it knows such; `Turns` ranks the
    heads anew.
    """

    ranking: Ranking
    everybody: list[Place] = field(default_factory=list)
    _groups: dict[GroupKey, tuple[GroupKey, list[Place]]] = field(default_factory=dict)
    _places: dict[str, tuple[GroupKey, Place]] = field(default_factory=dict)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._places

    def join(self, job: Job, context: OrderContext) -> None:
        """Take a place in the line."""
        order = self.ranking.order
        key = (group_of(job), None if order.alike else job.id)
        key, ranked = self._groups.setdefault(key, (key, []))
        among = context if order.settled else ALIKE
        rank = self.ranking.rank(job, among) if order.settled or order.alike else (job.sequence,)
        place = (rank, job.id)
        insort(ranked, place)
        insort(self.everybody, place)
        self._places[job.id] = (key, place)

    def leave(self, job_id: str) -> None:
        """Give the place up, if there is one."""
        found = self._places.pop(job_id, None)
        if found is not None:
            key, place = found
            del self.everybody[bisect_left(self.everybody, place)]
            ranked = self._groups[key][1]
            del ranked[bisect_left(ranked, place)]
            if not ranked:
                del self._groups[key]

    def groups(self) -> list[list[Place]]:
        """The groups, each sorted."""
        return [ranked for _, ranked in self._groups.values()]

    def in_order(self, jobs: Mapping[str, Job], context: OrderContext) -> list[Place]:
        """Everybody in the line, by the rank of the moment."""
        if self.ranking.order.settled:
            return self.everybody
        return sorted((self.ranking.rank(jobs[job_id], context), job_id) for _, job_id in self.everybody)

    def place_of(self, job: Job, jobs: Mapping[str, Job], context: OrderContext) -> int:
        """The place that a job has in the line, or would have, from 1."""
        place = (self.ranking.rank(job, context), job.id)
        return 1 + bisect_left(self.in_order(jobs, context), place)

    def position(self, job_id: str) -> int:
        """The job's place in a settled line, from 1."""
        return 1 + bisect_left(self.everybody, self._places[job_id][1])


@dataclass(slots=True)
class WaitingJobs:
    """The lines of all queues.

    A job on hold or behind a dependency is in none, one that pauses or has a begin time only from its time on.
    """

    ranking_of: Callable[[str], Ranking]
    lines: dict[str, WaitingQueue] = field(default_factory=dict)
    _later: dict[str, Job] = field(default_factory=dict)
    _times: list[tuple[float, str]] = field(default_factory=list)
    _awake_at: float = -inf

    def follow(self, job: Job, context: OrderContext) -> None:
        """Take in a job as it now stands."""
        line = self.line(job.spec.queue)
        line.leave(job.id)
        before = self._later.pop(job.id, None)
        if before is not None:
            del self._times[bisect_left(self._times, _time_of(before))]
        if job.phase is not Phase.PENDING or job.held or job.waits_for:
            return
        if job.eligible_at is not None:
            self._later[job.id] = job
            insort(self._times, _time_of(job))
        if job.eligible_at is None or job.eligible_at <= self._awake_at:
            line.join(job, context)

    def line(self, queue: str) -> WaitingQueue:
        """The line of a queue."""
        if queue not in self.lines:
            self.lines[queue] = WaitingQueue(self.ranking_of(queue))
        return self.lines[queue]

    def wake(self, context: OrderContext) -> None:
        """Let those join whose time has come, and part from those for whom it has not: a clock may be set back."""
        before, self._awake_at = self._awake_at, context.now
        first, last = (bisect_right(self._times, at, key=itemgetter(0)) for at in sorted((before, context.now)))
        for _, job_id in self._times[first:last]:
            job = self._later[job_id]
            if context.now > before:
                self.line(job.spec.queue).join(job, context)
            else:
                self.line(job.spec.queue).leave(job_id)


def _time_of(job: Job) -> tuple[float, str]:
    return (inf if job.eligible_at is None else job.eligible_at, job.id)


MayGoFirst = Callable[[Mapping[str, Job]], list[str]]
"""Of the queues with a head, those that none other of them goes before whatever they hold."""


class Turns:
    """Whose turn it is: of the foremost queues the one that holds least for its weight, in it the lowest rank."""

    def __init__(
        self,
        lines: Mapping[str, WaitingQueue],
        jobs: Mapping[str, Job],
        context: OrderContext,
        holding: Callable[[str], float],
        may_go_first: MayGoFirst = list,
    ) -> None:
        self._jobs = jobs
        self._holding = holding
        self._foremost = may_go_first
        self._lanes = {name: QueueTurns(lines[name], jobs, context) for name in sorted(lines) if lines[name].everybody}
        self._current: QueueTurns | None = None

    def head(self) -> str | None:
        """Id of the job whose turn it is, None when there is none left."""
        if self._current is None:
            heads = {name: self._jobs[job_id] for name, one in self._lanes.items() if (job_id := one.head())}
            if not heads:
                return None
            names = self._foremost(heads) if len(heads) > 1 else list(heads)
            first = min(names, key=lambda name: (self._holding(name), name)) if len(names) > 1 else names[0]
            self._current = self._lanes[first]
        return self._current.head()

    def waiting(self) -> list[str]:
        """The queues in which somebody has yet to have a turn."""
        return [name for name, one in self._lanes.items() if one.head() is not None]

    def position(self) -> int:
        """The head's place in its queue, from 1, behind those that start now."""
        assert self._current is not None, "there is no head"
        return self._current.position()

    def head_started(self) -> None:
        """The head starts: the next of its group takes its place."""
        assert self._current is not None, "there is no head"
        self._current.head_started()
        self._current = None

    def skip_head(self) -> None:
        """The head alone has been seen to: the next of its group has its turn."""
        assert self._current is not None, "there is no head"
        self._current.skip_head()
        self._current = None

    def skip_group(self) -> None:
        """The head has no place, and none that is like it has."""
        assert self._current is not None, "there is no head"
        self._current.skip_group()
        self._current = None

    def skip_queue(self, *, but: Collection[str] = ()) -> None:
        """Nobody of the head's queue has another turn in this cycle, but for these jobs."""
        assert self._current is not None, "there is no head"
        self._current.close(but)
        self._current = None

    def shortest_first(self, queue: str) -> None:
        """From here on the queue's jobs take turns by their estimated run times."""
        self._lanes[queue].shortest_first()


class QueueTurns:
    """Merges the sorted groups of one line; only the heads of the groups are compared."""

    def __init__(self, line: WaitingQueue, jobs: Mapping[str, Job], context: OrderContext) -> None:
        self._line = line
        self._jobs = jobs
        self._context = context
        self._settled = line.ranking.order.settled
        self._moving = not self._settled and line.ranking.order.alike
        self._lanes = [GroupCursor(ranked) for ranked in line.groups()]
        self._started = self._closed = 0
        self._by_estimate = False
        self._heads = self._merged()
        if line.ranking.fault is not None:  # it may have come up half-way
            self._heads = self._merged()

    def head(self) -> str | None:
        """Id of the job whose turn it is, None when there is none left."""
        head = self._heads.head()
        return None if head is None else head[1]

    def position(self) -> int:
        """The head's place behind those that start now: exact in a settled line, else its place among the groups."""
        head = self._heads.head() if self._settled else None
        return self._closed + 1 if head is None else self._line.position(head[1]) - self._started

    def head_started(self) -> None:
        """The head starts: the next of its group takes its place."""
        self._started += 1
        self._heads.lane().advance()

    def skip_head(self) -> None:
        """The head alone has been seen to: the next of its group has its turn."""
        self._closed += 1
        self._heads.lane().advance()

    def skip_group(self) -> None:
        """The head has no place, and none that is like it has."""
        self._closed += 1
        self._heads.lane().close()

    def close(self, but: Collection[str]) -> None:
        """Nobody has another turn, but for these jobs."""
        self._lanes = [GroupCursor([place]) for place in self._line.everybody if place[1] in but] if but else []
        self._heads = self._merged()

    def shortest_first(self) -> None:
        """From here on turns go by estimated run time; those of whom nothing is known come last."""
        if not self._by_estimate:
            self._by_estimate = True
            self._heads = self._merged()

    def _merged(self) -> LazyMerge:
        """All groups. Those of an order that moves are merged user by user and project by project, as shares move."""
        if not self._moving:
            return LazyMerge(self._lanes, self._place_in(self._context), moving=False)
        users: dict[tuple[str, str], list[GroupCursor]] = {}
        for lane in self._lanes:
            head = lane.head()
            if head is not None:
                spec = self._jobs[head[1]].spec
                users.setdefault((spec.project, spec.user), []).append(lane)
        projects: dict[str, list[LazyMerge]] = {}
        alone, beside = self._place_in(self._sharing(2)), self._place_in(self._sharing(1))
        for (project, _), lanes in users.items():
            projects.setdefault(project, []).append(LazyMerge(lanes, alone, moving=False))
        within = [LazyMerge(some, beside, moving=True) for some in projects.values()]
        return LazyMerge(within, self._place_in(self._context), moving=True)

    def _sharing(self, levels: int) -> OrderContext:
        """The context among jobs that share so many levels of what `over_use` tells: the project, then the user."""
        over_use = self._context.over_use
        return replace(self._context, over_use=lambda job: over_use(job)[levels:])

    def _place_in(self, context: OrderContext) -> Callable[[Place], Place]:
        def place_now(place: Place) -> Place:
            rank, job_id = place
            if not self._settled:
                rank = self._line.ranking.rank(self._jobs[job_id], context)
            if self._by_estimate:
                estimate_s = context.estimate_s(self._jobs[job_id])
                rank = (inf if estimate_s is None else estimate_s, *rank)
            return rank, job_id

        return place_now
