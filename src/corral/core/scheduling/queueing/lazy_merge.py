"""A merge of sorted groups of jobs that compares only their heads: groups of a user, users of a project, projects.

A start changes the ranks of all jobs of its user and project, but never the order among the jobs of one user. A start
costs only a few comparisons, because groups are merged by user, users by project, and projects by queue.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Protocol

from corral.core.scheduling.queueing.order import Rank

Place = tuple[Rank, str]
"""A job's rank and its id."""


class HasHead(Protocol):
    """An object that has a first job."""

    def head(self) -> Place | None:
        """The rank and id of the first job, with the rank it had when it joined its queue; None if no job is left."""
        ...

    def cursor(self) -> "GroupCursor":
        """The group of the job that `head` last returned."""
        ...


class GroupCursor:
    """A position in one sorted group of similar jobs."""

    __slots__ = ("_cursor", "_ranked")

    def __init__(self, ranked: Sequence[Place]) -> None:
        self._ranked = ranked
        self._cursor = 0

    def head(self) -> Place | None:
        """The first job that has not been looked at; None if all have."""
        return self._ranked[self._cursor] if self._cursor < len(self._ranked) else None

    def cursor(self) -> "GroupCursor":
        """The cursor itself."""
        return self

    def advance(self) -> None:
        """Move past the first job, which has been looked at."""
        self._cursor += 1

    def close(self) -> None:
        """Skip the rest of the group."""
        self._cursor = len(self._ranked)


class LazyMerge:
    """A merge of several parts: the head is the best of their heads by `place_now`.

    A place may only get worse during the merge. `ranks_change` says that this may happen to heads that stay heads.
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
        """The rank and id of the best job, with the rank it had when it joined its queue; None if no job is left."""
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
