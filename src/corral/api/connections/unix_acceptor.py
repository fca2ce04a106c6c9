"""Accept connections of a Unix socket, at a limited rate for each user, so that a connect loop locks nobody out.

All users share the kernel's short queue of connections that are not accepted yet. If it is full, further clients are
refused or wait. Preparing a connection takes the server a hundred times as long as connecting takes the client. So the
server closes excess connections of a user unprepared, and the queue stays short.
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
"""A user may make CONNECTIONS_PER_S connections a second in the long run, and MOST_AT_ONCE in one burst."""

_MOST_KNOWN = 10_000
_TURN_S = 0.005
"""The acceptor takes connections for this time before other work of the event loop has its turn."""

_TOLD_AGAIN_S = 60.0
_REST_S = 1.0
"""The acceptor pauses for this time if the server has no file descriptor left."""

log = logging.getLogger(__name__)


class ConnectRates:
    """Limits the rate of connections of each user. For one thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        # By uid: the connections that the user may still make at once, and the monotonic time of that count.
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

    The uids in `free` have no limit. By default they are root and the server's own user.
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
        """Accept no more connections, and close the listening socket."""
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
            log.warning(
                "user id %d connects more than %d times a second; further connections are refused",
                uid,
                CONNECTIONS_PER_S,
            )

    def _began(self, beginning: "asyncio.Task[object]") -> None:
        self._beginning.discard(beginning)
        if not beginning.cancelled() and (error := beginning.exception()) is not None:
            log.warning("a connection could not be taken: %s", error)

    def _rest(self, error: OSError) -> None:
        """Accept nothing for a while. Without a pause, the failing call would be repeated in a loop."""
        log.error("connections cannot be accepted: %s", error.strerror)
        self._loop.remove_reader(self._listener)
        self._again = self._loop.call_later(_REST_S, self._loop.add_reader, self._listener, self._accept)
