"""Wakes a thread that waits, for a time or for other descriptors as well. A call while it does not wait counts too."""

import select
import socket
from contextlib import suppress

_MOST_CALLS = 4096


class Wake:
    """`set` may be called from any thread; the other methods are for the thread that waits."""

    def __init__(self) -> None:
        self._hears, self._calls = socket.socketpair()
        for end in (self._hears, self._calls):
            end.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that can be read once `set` was called."""
        return self._hears.fileno()

    def set(self) -> None:
        """Wake the thread. Does nothing after `close`."""
        with suppress(OSError):
            self._calls.send(b"x")

    def clear(self) -> None:
        """Forget earlier calls."""
        with suppress(BlockingIOError):
            self._hears.recv(_MOST_CALLS)

    def wait(self, timeout_s: float) -> None:
        """Wait for a call, at most so long."""
        select.select([self], [], [], timeout_s)

    def close(self) -> None:
        """Free the descriptors."""
        self._hears.close()
        self._calls.close()
