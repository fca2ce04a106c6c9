"""A merge of sorted groups of jobs that compares only their heads: groups of a user, users of a project, projects.

A start changes the ranks of all jobs of its user and project, but never the order of jobs of one user among themselves.
So groups are merged by user, users by project, and projects by queue, and a start costs a few comparisons.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Protocol

from corral.core.scheduling.queueing.order import Rank

Place = tuple[Rank, str]
"""A job's rank and its id."""


class HasHead(Protocol):
    """Anything that has a first job."""

    def head(self) -> Place | None:
        """The rank and id of the first job, as when it joined its queue; None when there is none left."""
        ...

    def cursor(self) -> "GroupCursor":
        """The group of the job that `head` last returned."""
        ...


class GroupCursor:
    """A position in one group of similar jobs, in their order."""

    __slots__ = ("_cursor", "_ranked")

    def __init__(self, ranked: Sequence[Place]) -> None:
        self._ranked = ranked
        self._cursor = 0

    def head(self) -> Place | None:
        """The first job that has not been looked at, None when all have."""
        return self._ranked[self._cursor] if self._cursor < len(self._ranked) else None

    def cursor(self) -> "GroupCursor":
        """This one."""
        return self

    def advance(self) -> None:
        """The first job has been looked at."""
        self._cursor += 1

    def close(self) -> None:
        """No other job of the group needs to be looked at."""
        self._cursor = len(self._ranked)


class LazyMerge:
    """Merged lanes: the head is the best of their heads by `place_now`.

    Places may only get worse meanwhile. `ranks_change`: those of jobs that stay the heads of their lanes do so, too.
    """

    __slots__ = ("_heap", "_parts", "_place_now", "_ranks_change")

    def __init__(self, parts: Sequence[HasHead], place_now: Callable[[Place], Place], *, ranks_change: bool) -> None:
        self._parts = parts
        self._place_now = place_now
        self._ranks_change = ranks_change
        heads = ((cursor.head(), index) for index, cursor in enumerate(parts))
        self._heap = [(place_now(head), index) for head, index in heads if head is not None]
        heapify(self._heap)

    def head(self) -> Place | None:
        """The rank and id of the best job, as when it joined its queue; None when there is none left."""
        while self._heap:
            place, index = self._heap[0]
            head = self._parts[index].head()
            if head is None:
                heappop(self._heap)
                continue
            if head[1] == place[1] and not self._ranks_change:
                return head
            fresh = self._place_now(head)
            if fresh == place:
                return head
            heapreplace(self._heap, (fresh, index))
        return None

    def cursor(self) -> GroupCursor:
        """The group of the job that `head` last returned, even if ranks have changed since."""
        return self._parts[self._heap[0][1]].cursor()
