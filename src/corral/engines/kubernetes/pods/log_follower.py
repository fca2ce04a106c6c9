"""Follows a log on a thread of its own, until its container has ended."""

import threading
from collections.abc import Callable
from contextlib import suppress

from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.connection import ResponseStream

CLOSE_S = 1.0

Opened = Callable[[ResponseStream], None]


class LogFollower:
    """Follows one log, once. It breaks off if the API server does."""

    def __init__(self, follow: Callable[[Opened], None]) -> None:
        """`follow(opened)` reads to the end of the log. It calls `opened` with the stream as soon as it is open."""
        self._follow = follow
        self._stream: ResponseStream | None = None
        self._begun = threading.Event()
        self._over = threading.Event()
        self._finishing = False
        self.saw_the_end = False
        self._thread = threading.Thread(target=self._run, name="log-follower", daemon=True)

    @property
    def active(self) -> bool:
        """Whether it may still read."""
        return not self._over.is_set()

    def begin(self, wait_s: float) -> None:
        """Begin, and wait at most `wait_s` until the log's existing text arrives."""
        self._thread.start()
        self._begun.wait(wait_s)

    def finish(self, wait_s: float) -> None:
        """Give it `wait_s` seconds to reach the end of the log, and then break off."""
        if self._over.wait(wait_s):
            return
        self._finishing = True
        if self._stream is not None:
            self._stream.close()
        self._over.wait(CLOSE_S)

    def _run(self) -> None:
        try:
            with suppress(CorralError, OSError):
                self._follow(self._opened)
                self.saw_the_end = not self._finishing
        finally:
            self._over.set()
            self._begun.set()

    def _opened(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._begun.set()
        if self._finishing:
            stream.close()
