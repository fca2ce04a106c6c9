"""The best of several, best first: of the groups of a user, of the users of a project, of the projects of a queue.

A start moves the ranks of everybody who shares with its user, but never two of them past each other who share it all.
So what is moved is compared only where it differs, and a start costs a few comparisons instead of one a group.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Protocol

from corral.scheduling.queueing.order import Rank

Place = tuple[Rank, str]
"""A job's rank and its id."""


class HasHead(Protocol):
    """Jobs of which one is the first."""

    def head(self) -> Place | None:
        """The first as it joined its line, None when there is none left."""
        ...

    def lane(self) -> "GroupCursor":
        """The lane of the first that was told last."""
        ...


class GroupCursor:
    """Alike jobs in their order, seen one after another."""

    __slots__ = ("_cursor", "_ranked")

    def __init__(self, ranked: Sequence[Place]) -> None:
        self._ranked = ranked
        self._cursor = 0

    def head(self) -> Place | None:
        """The first that was not seen, None when all were."""
        return self._ranked[self._cursor] if self._cursor < len(self._ranked) else None

    def lane(self) -> "GroupCursor":
        """This one."""
        return self

    def advance(self) -> None:
        """The first has been seen."""
        self._cursor += 1

    def close(self) -> None:
        """None of the others needs to be seen."""
        self._cursor = len(self._ranked)


class LazyMerge:
    """Merged lanes: the head is the best of their heads by `place_of`.

    Places may only get worse meanwhile. `moving`: those of jobs that stay the heads of their lanes do so, too.
    """

    __slots__ = ("_heap", "_lanes", "_moving", "_place_of")

    def __init__(self, lanes: Sequence[HasHead], place_of: Callable[[Place], Place], *, moving: bool) -> None:
        self._lanes = lanes
        self._place_of = place_of
        self._moving = moving
        heads = ((lane.head(), index) for index, lane in enumerate(lanes))
        self._heap = [(place_of(head), index) for head, index in heads if head is not None]
        heapify(self._heap)

    def head(self) -> Place | None:
        """The best job's place as it joined its line, None when there is none left."""
        while self._heap:
            place, index = self._heap[0]
            head = self._lanes[index].head()
            if head is None:
                heappop(self._heap)
                continue
            if head[1] == place[1] and not self._moving:
                return head
            fresh = self._place_of(head)
            if fresh == place:
                return head
            heapreplace(self._heap, (fresh, index))
        return None

    def lane(self) -> GroupCursor:
        """The lane of the job that `head` last returned, whatever has moved since."""
        return self._lanes[self._heap[0][1]].lane()
