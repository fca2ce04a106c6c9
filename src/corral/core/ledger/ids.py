"""Fresh job ids: a counter on disk, read ahead so that taking an id needs no commit."""

import threading

RESERVE = 100
"""Ids reserved ahead. A crash skips at most so many; an orderly close hands the unused ones back."""


class IdCounter:
    """Numbers never given before. Those below `ceiling` are reserved on disk; only they are given. Thread-safe.

    Only the writer moves the ceiling.
    """

    def __init__(self, next_id: int) -> None:
        self._lock = threading.Lock()
        self._next = next_id
        self.ceiling = next_id
        self._asked = 0

    def take(self, count: int, *, unreserved: bool = False) -> range | None:
        """`count` numbers in a row, or None when so many are not reserved yet; `ceiling_due` then asks for them.

        `unreserved` is for the writer's own thread, whose next transaction records them before anyone sees them.
        """
        with self._lock:
            if self._next + count > self.ceiling and not unreserved:
                self._asked += count
                return None
            taken = range(self._next, self._next + count)
            self._next += count
            return taken

    def skip(self, number: int) -> bool:
        """Give no number up to this one any more. Whether that changes anything."""
        with self._lock:
            before, self._next = self._next, max(self._next, number + 1)
            return self._next > before

    def ceiling_due(self) -> int | None:
        """The ceiling that the next transaction should record, None while enough are reserved."""
        with self._lock:
            if self.ceiling - self._next >= self._asked + RESERVE // 2:
                return None
            return self._next + self._asked + RESERVE

    def reserved(self, ceiling: int) -> None:
        """Ids below `ceiling` are on record now."""
        with self._lock:
            self.ceiling = ceiling
            self._asked = 0

    @property
    def unused(self) -> int:
        """The first number not given."""
        with self._lock:
            return self._next
