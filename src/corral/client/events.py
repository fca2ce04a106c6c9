"""Follows the events of a server, also across its restarts."""

import json
import time
from collections.abc import Iterable, Iterator

from corral.client.connecting.transport import Transport
from corral.core.model.answers.events import Event
from corral.core.model.errors import BackendFailed, CorralError
from corral.core.model.units import format_bytes
from corral.wire import from_answer

QUIET_S = 60.0
"""A server that sends nothing for this long counts as gone: it sends a sign of life every 15 s."""

AWAY_S = 60.0
"""The time for which a server may be away before the client gives up."""

MOST_EVENT_BYTES = 64 << 20
"""The most bytes of one event that are read. No correct server sends a larger event."""

_RECONNECT_S = 0.2
_SHOWN = 80
_NOT_TOLD = ("ping", "overflow")


class FollowedEvents:
    """The events of a server from a place on, as an iterator that reconnects and continues at its place.

    Raises the refusals of the server. Raises NoServer if the server is not there at first, or has been away for a
    minute, and CorralError for data that is not an event.

    Attributes:
        connected: whether the server is there, as far as known. Other threads may read it.
    """

    def __init__(self, transport: Transport, topics: Iterable[str], after: int | None) -> None:
        self._transport = transport
        self._topics = ",".join(topics) or None
        self._after = after
        self._greeted = False
        self.connected = False
        self._heard_at = time.monotonic()

    def __iter__(self) -> Iterator[Event]:
        while True:
            try:
                yield from self._connected()
                self.connected = False
            except BackendFailed:
                self.connected = False
                if not self._greeted or time.monotonic() - self._heard_at > AWAY_S:
                    raise
            time.sleep(_RECONNECT_S)

    def _connected(self) -> Iterator[Event]:
        """The events of one connection, until it ends."""
        stream = self._transport.stream("/events", quiet_s=QUIET_S, topics=self._topics, after=self._after)
        for place, event in _events(stream):
            self._heard_at = time.monotonic()
            self.connected = True
            again = event.topic == "hello" and self._greeted
            self._greeted = True
            if not again and event.topic not in _NOT_TOLD:
                yield event
            if place is not None:
                self._after = place


def _events(stream: Iterable[bytes]) -> Iterator[tuple[int | None, Event]]:
    """Each event with its place. The place is None if a stream cannot continue after the event."""
    rest = b""
    for block in stream:
        *frames, rest = (rest + block).split(b"\n\n")
        if len(rest) > MOST_EVENT_BYTES:
            raise CorralError(f"the server sent an event of more than {format_bytes(MOST_EVENT_BYTES)}")
        for frame in frames:
            fields = dict(line.partition(b": ")[::2] for line in frame.split(b"\n"))
            if b"data" in fields:
                yield _read(fields)


def _read(fields: dict[bytes, bytes]) -> tuple[int | None, Event]:
    try:
        event = from_answer(Event, json.loads(fields[b"data"]))
        return int(fields[b"id"]) if b"id" in fields else None, event
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise CorralError(f"the server sent something that is not an event: {fields[b'data'][:_SHOWN]!r}") from None
