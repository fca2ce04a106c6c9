"""Fresh job ids from a counter on disk. The counter reserves ids ahead, so that most need no commit."""

import threading

RESERVE = 100
"""The number of ids reserved ahead. A crash skips at most this many; an orderly close returns the unused ids."""


class IdCounter:
    """Numbers that were never given before. All are below `ceiling`, which is reserved on disk. Thread-safe.

    Only the writer moves the ceiling.
    """

    def __init__(self, next_id: int) -> None:
        self._lock = threading.Lock()
        self._next = next_id
        self.ceiling = next_id
        self._asked = 0

    def take(self, count: int, *, unreserved: bool = False) -> range | None:
        """`count` consecutive numbers, or None if too few are reserved yet; then `ceiling_due` asks for them.

        `unreserved` is for the writer's own thread: its next transaction records the numbers before anyone sees them.
        """
        with self._lock:
            if self._next + count > self.ceiling and not unreserved:
                self._asked += count
                return None
            taken = range(self._next, self._next + count)
            self._next += count
            return taken

    def skip(self, number: int, most: int | None = None) -> bool:
        """Give no number up to `number` from now on, unless that skips more than `most`. Return whether that changes
        anything.
        """
        with self._lock:
            if most is not None and number - self._next >= most:
                return False
            before, self._next = self._next, max(self._next, number + 1)
            return self._next > before

    def ceiling_due(self) -> int | None:
        """The ceiling that the next transaction should record; None while enough numbers are reserved."""
        with self._lock:
            if self.ceiling - self._next >= self._asked + RESERVE // 2:
                return None
            return self._next + self._asked + RESERVE

    def reserved(self, ceiling: int) -> None:
        """Take over the new ceiling: ids below it are on disk now."""
        with self._lock:
            self.ceiling = ceiling
            self._asked = 0

    @property
    def unused(self) -> int:
        """The first number not given."""
        with self._lock:
            return self._next
