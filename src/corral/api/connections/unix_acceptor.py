"""Accepts connections of a Unix socket, of each user so many a second: whoever connects in a loop locks nobody out.

The kernel keeps a short line of connections that nobody has accepted yet, which all users share, and whoever comes to a
full one is turned away or waits. To prepare a connection takes the server a hundred times as long as to connect to it.
So connections that one user makes too fast are closed unprepared, and the line stays short.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable

from corral.unix_peer import peer_of

CONNECTIONS_PER_S = 250.0
MOST_AT_ONCE = 1_000
"""A user may connect so often in the long run, and so often at once."""

_MOST_KNOWN = 10_000
_TURN_S = 0.005
"""So long connections are accepted before other work of the event loop has its turn."""

_TOLD_AGAIN_S = 60.0
_REST_S = 1.0
"""So long nothing is accepted once the server has no descriptor left for it."""

log = logging.getLogger(__name__)


class ConnectRates:
    """Who has connected how often lately. For one thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        # What each user may still do at once, and when that was so.
        self._left: dict[int, tuple[float, float]] = {}

    def may(self, uid: int) -> bool:
        """Whether this user may have one more connection now."""
        now_s = self._monotonic()
        left, at_s = self._left.get(uid, (float(MOST_AT_ONCE), now_s))
        left = min(float(MOST_AT_ONCE), left + CONNECTIONS_PER_S * (now_s - at_s))
        if len(self._left) >= _MOST_KNOWN and uid not in self._left:
            del self._left[next(iter(self._left))]
        self._left[uid] = (left - 1 if left >= 1 else left, now_s)
        return left >= 1


class UnixAcceptor:
    """Accepts on a Unix socket until `close`. Used on the event loop.

    The uids in `free`, root and the server's own user unless others are given, may connect as often as they like.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        backlog: int,
        *,
        rates: ConnectRates | None = None,
        free: frozenset[int] | None = None,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._rates = rates or ConnectRates()
        self._free = frozenset({0, os.geteuid()}) if free is None else free
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[object]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._told = (-1, 0.0)
        listener.setblocking(False)
        listener.listen(backlog)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept nothing more, and close the listening socket."""
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        until_s = time.monotonic() + _TURN_S
        while time.monotonic() < until_s:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        peer = peer_of(connection)
        if peer.uid not in self._free and not self._rates.may(peer.uid):
            self._tell_of(peer.uid)
            connection.close()
            return
        connection.setblocking(False)
        beginning = self._loop.create_task(self._loop.connect_accepted_socket(self._make_protocol, connection))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._began)

    def _tell_of(self, uid: int) -> None:
        now_s = time.monotonic()
        if uid != self._told[0] or now_s - self._told[1] >= _TOLD_AGAIN_S:
            self._told = (uid, now_s)
            log.warning("user id %d connects more than %d times a second, and is turned away", uid, CONNECTIONS_PER_S)

    def _began(self, beginning: "asyncio.Task[object]") -> None:
        self._beginning.discard(beginning)
        if not beginning.cancelled() and (error := beginning.exception()) is not None:
            log.warning("a connection could not be taken: %s", error)

    def _rest(self, error: OSError) -> None:
        """Accept nothing for a while: what has no room would be asked for in a loop."""
        log.error("connections cannot be accepted: %s", error.strerror)
        self._loop.remove_reader(self._listener)
        self._again = self._loop.call_later(_REST_S, self._loop.add_reader, self._listener, self._accept)
