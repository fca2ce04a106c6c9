"""A pool whose threads start when there is work, and end after an idle time."""

import threading
from collections import deque
from collections.abc import Callable

IDLE_S = 30.0
"""A thread ends after this idle time."""

Work = Callable[[], None]


class ThreadPool:
    """Runs work on at most `limit` threads, in order of arrival. An exception of the work ends its thread."""

    def __init__(self, name: str, limit: int) -> None:
        """A pool of one thread is called `name`, the threads of a larger one `name`-0, `name`-1."""
        self._name = name
        self._limit = limit
        self._changed = threading.Condition()
        self._waiting: deque[Work] = deque()
        self._numbers: set[int] = set()
        self._idle = 0

    def submit(self, work: Work) -> None:
        """Run the work as soon as a thread is free."""
        with self._changed:
            self._waiting.append(work)
            if self._idle >= len(self._waiting):
                self._changed.notify()
            elif len(self._numbers) < self._limit:
                self._start()

    def _start(self) -> None:
        number = next(n for n in range(self._limit) if n not in self._numbers)
        self._numbers.add(number)
        name = self._name if self._limit == 1 else f"{self._name}-{number}"
        threading.Thread(target=self._run, args=(number,), name=name, daemon=True).start()

    def _run(self, number: int) -> None:
        while (work := self._next(number)) is not None:
            work()

    def _next(self, number: int) -> Work | None:
        """Return the next work. After the idle time return None and stop counting the thread."""
        with self._changed:
            self._idle += 1
            found = self._changed.wait_for(lambda: bool(self._waiting), IDLE_S)
            self._idle -= 1
            if found:
                return self._waiting.popleft()
            self._numbers.discard(number)
            return None
