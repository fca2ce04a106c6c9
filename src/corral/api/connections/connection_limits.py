"""Limits for all connections of a server together: their number, and the bytes of long request heads."""

from collections import Counter

from corral.api.requests.bodies import InFlight

MAX_HEADS_BYTES = 32 * 1024 * 1024
"""The most bytes of long heads whose requests are not answered yet. One user may have half of them."""

READ_BYTES = 64 * 1024
"""The most bytes that one read receives."""


class ConnectionLimits:
    """Counts connections and their bytes by user or address. Used on the event loop alone.

    One user, or one address over TCP, may have three quarters of the connections, so that other users can still
    connect.

    Attributes:
        heads: the bytes of long heads.
        buffer: the buffer for one read. Its content is copied out at once, so connections need no buffer of their own.
    """

    def __init__(self, most_connections: int) -> None:
        self.heads = InFlight(MAX_HEADS_BYTES)
        self.buffer = memoryview(bytearray(READ_BYTES))
        self._most = most_connections
        self._most_of_one = most_connections - most_connections // 4
        self._of: Counter[str] = Counter()

    def enter(self, who: str, connected: int) -> bool:
        """Count a connection until `leave`. Return whether it may be used; `connected` is their number now."""
        self._of[who] += 1
        return connected <= self._most and self._of[who] <= self._most_of_one

    def leave(self, who: str) -> None:
        """End what `enter` has counted."""
        self._of[who] -= 1
        if not self._of[who]:
            del self._of[who]
