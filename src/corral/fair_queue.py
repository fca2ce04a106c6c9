"""What waits, and for whom: users take turns, so that one who asks for much delays others by one thing at a time."""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

SERVER = ""
"""In the place of a user: what the server does of its own accord. It takes its turn as a user does."""


class FairQueue(Generic[T]):
    """Items that wait. Users take turns, one item each; the items of a user stay in their order.

    Who had nothing waiting has their turn after those who wait, and before whoever had the last turn: what was taken
    then may just have been done. There are thousands of these queues: an empty one is a dict. Not thread-safe.
    """

    __slots__ = ("_count", "_last", "_of")

    def __init__(self) -> None:
        # Users in the order of their turns.
        self._of: dict[str, deque[T]] = {}
        self._last: str | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, user: str) -> int:
        """How much of this user waits."""
        return len(self._of.get(user, ()))

    def put(self, user: str, item: T) -> None:
        """Have it wait behind what else this user has waiting."""
        self._of.setdefault(user, deque()).append(item)
        self._count += 1

    def discard(self, user: str, item: T) -> None:
        """Have it wait no longer, if it still does."""
        items = self._of.get(user)
        if items is None or item not in items:
            return
        items.remove(item)
        if not items:
            del self._of[user]
        self._count -= 1

    def pop(self, fits: Callable[[T], bool] = lambda item: True) -> T | None:
        """Take the first item of whose turn it is, None where there is none.

        A user whose first item does not fit keeps their turn, and their other items wait behind it.
        """
        if self._last is not None and (left := self._of.pop(self._last, None)) is not None:
            self._of[self._last] = left
        for user, items in self._of.items():
            if fits(items[0]):
                item, self._last = items.popleft(), user
                if not items:
                    del self._of[user]
                self._count -= 1
                return item
        return None
