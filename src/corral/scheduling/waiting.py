"""The jobs that wait, sorted, in groups of alike ones: if the first of a group has no place, none of them has."""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from corral.model.job import Job, Phase
from corral.model.plan import Group, group_of
from corral.scheduling.admit import parked
from corral.scheduling.order import Order, Rank


@dataclass(slots=True)
class Waiting:
    """Waiting jobs by group, each group sorted by the order.

    A job on hold or behind a dependency is in no group; one in backoff is in its group from the time on when it ends.
    """

    order: Order
    _groups: dict[Group, list[tuple[Rank, str]]] = field(default_factory=dict)
    _group_of: dict[str, tuple[Group, tuple[Rank, str]]] = field(default_factory=dict)
    _all: list[tuple[Rank, str]] = field(default_factory=list)
    _backoff: dict[str, Job] = field(default_factory=dict)

    def follow(self, job: Job) -> None:
        """Take in a job as it now stands."""
        self._leave(job.id)
        self._backoff.pop(job.id, None)
        if job.phase is not Phase.PENDING or job.held or job.waits_for:
            return
        if job.eligible_at is None:
            self._join(job)
        else:
            self._backoff[job.id] = job

    def wake(self, now: float) -> None:
        """Let those join whose backoff is over, and part from those for whom it is not: a clock may be set back."""
        for job in self._backoff.values():
            if parked(job, now) is not None:
                self._leave(job.id)
            elif job.id not in self._group_of:
                self._join(job)

    def position(self, job: Job) -> int:
        """The job's place in the order, from 1, among those that may start as soon as there is room."""
        return 1 + bisect_left(self._all, (self.order.rank(job), job.id))

    def turns(self) -> "Turns":
        """The jobs one by one in order."""
        return Turns(list(self._groups.items()))

    def _join(self, job: Job) -> None:
        key, place = group_of(job), (self.order.rank(job), job.id)
        insort(self._groups.setdefault(key, []), place)
        insort(self._all, place)
        self._group_of[job.id] = (key, place)

    def _leave(self, job_id: str) -> None:
        found = self._group_of.pop(job_id, None)
        if found is not None:
            key, place = found
            del self._all[bisect_left(self._all, place)]
            ranked = self._groups[key]
            del ranked[bisect_left(ranked, place)]
            if not ranked:
                del self._groups[key]


class Turns:
    """Merges the sorted groups into one order; only the heads of the groups are compared."""

    def __init__(self, groups: list[tuple[Group, list[tuple[Rank, str]]]]) -> None:
        self._groups = groups
        self._heap = [(ranked[0], index, 0) for index, (_, ranked) in enumerate(groups)]
        heapify(self._heap)

    def head(self) -> str | None:
        """Id of the job whose turn it is, None when there is none left."""
        return self._heap[0][0][1] if self._heap else None

    def go_on(self) -> None:
        """Done with the head alone."""
        _, index, cursor = self._heap[0]
        ranked = self._groups[index][1]
        if cursor + 1 < len(ranked):
            heapreplace(self._heap, (ranked[cursor + 1], index, cursor + 1))
        else:
            heappop(self._heap)

    def close_group(self) -> None:
        """Done with the head and with all that are like it."""
        heappop(self._heap)
