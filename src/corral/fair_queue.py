"""A queue in which users take turns: a user with many items delays others by one item at a time."""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

SERVER = ""
"""The user name for work of the server itself. It takes turns like a user."""


class FairQueue(Generic[T]):
    """Items that wait. Users take turns, one item each. The items of a user stay in their order.

    A user without waiting items joins after the users who wait, but before the user of the last turn: the item of
    that turn may just have been done. There are thousands of these queues: an empty one is a dict. Not thread-safe.
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
        """The number of waiting items of this user."""
        return len(self._of.get(user, ()))

    def put(self, user: str, item: T) -> None:
        """Add an item behind the other items of this user."""
        self._of.setdefault(user, deque()).append(item)
        self._count += 1

    def discard(self, user: str, item: T) -> None:
        """Remove an item, if it still waits."""
        items = self._of.get(user)
        if items is None or item not in items:
            return
        items.remove(item)
        if not items:
            del self._of[user]
        self._count -= 1

    def pop(self, fits: Callable[[T], bool] = lambda item: True) -> T | None:
        """Take the first item of the user whose turn it is; None if there is none.

        A user whose first item does not fit keeps their turn, and their other items wait behind that item.
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
