"""What all connections of a server may hold at once: how many there are, and the bytes of long heads of requests."""

from collections import Counter

from corral.api.requests.bodies import InFlight

MAX_HEADS_BYTES = 32 * 1024 * 1024
"""The most bytes of long heads whose requests are not answered yet; of one user half of them."""

READ_BYTES = 64 * 1024
"""The most that is received at a time."""


class ConnectionLimits:
    """Counts what connections have, by who made them. Used on the event loop alone.

    One user, or one address over TCP, may have three quarters of the connections, so that others are still heard.

    Attributes:
        heads: the bytes of long heads.
        buffer: what one read fills, and is taken from at once; connections have none of their own.
    """

    def __init__(self, most_connections: int) -> None:
        self.heads = InFlight(MAX_HEADS_BYTES)
        self.buffer = memoryview(bytearray(READ_BYTES))
        self._most = most_connections
        self._most_of_one = most_connections - most_connections // 4
        self._of: Counter[str] = Counter()

    def enter(self, who: str, connected: int) -> bool:
        """Count a connection until `leave`. Whether it may be used, being one of so many that are `connected`."""
        self._of[who] += 1
        return connected <= self._most and self._of[who] <= self._most_of_one

    def leave(self, who: str) -> None:
        """The opposite of `enter`."""
        self._of[who] -= 1
        if not self._of[who]:
            del self._of[who]
