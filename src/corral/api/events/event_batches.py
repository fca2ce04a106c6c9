"""Encoded events: each event is encoded once, and each batch is joined once for all clients with the same topics."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import zip_longest
from typing import NamedTuple

from corral.core.model.answers.events import Event
from corral.wire import to_plain

Topics = frozenset[str]


class EncodedEvent(NamedTuple):
    """One event: `data` is its JSON, on one line."""

    topic: str
    id: int | None
    data: bytes


class EventBatch:
    """Events that are sent together, as Server-Sent Events or as a message of a WebSocket.

    Attributes:
        after, upto: the range of places in the journal; 0 for events that are not from the journal.
        size_bytes: the size of the JSON of all its events.
    """

    __slots__ = ("_events", "_streams", "_texts", "after", "size_bytes", "upto")

    def __init__(self, events: Iterable[Event], after: int = 0, upto: int = 0) -> None:
        # The JSON is ASCII without line breaks, whatever names contain. So no name can end a line of a stream.
        self._events = tuple(EncodedEvent(event.topic, event.id, _json_of(event)) for event in events)
        self._streams: dict[Topics, bytes] = {}
        self._texts: dict[Topics, str] = {}
        self.after = after
        self.upto = upto
        self.size_bytes = sum(len(event.data) for event in self._events)

    def stream(self, topics: Topics) -> bytes:
        """The events of these topics as Server-Sent Events; b"" if there are none."""
        known = self._streams.get(topics)
        if known is None:
            known = self._streams[topics] = b"".join(_framed(self.events_of(topics)))
        return known

    def text(self, topics: Topics) -> str:
        """The events of these topics as one JSON list; "" if there are none."""
        known = self._texts.get(topics)
        if known is None:
            listed = b",".join(event.data for event in self.events_of(topics))
            known = self._texts[topics] = f"[{listed.decode()}]" if listed else ""
        return known

    def events_of(self, topics: Collection[str]) -> list[EncodedEvent]:
        """The events of these topics."""
        return [event for event in self._events if event.topic in topics]


def alone(event: Event) -> EventBatch:
    """A batch of one event."""
    return EventBatch((event,))


def _json_of(event: Event) -> bytes:
    return _encode({name: getattr(event, name) for name in _FIELDS}).encode()


_FIELDS = tuple(field.name for field in fields(Event))
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=to_plain).encode


def _framed(events: Sequence[EncodedEvent]) -> Iterator[bytes]:
    """Yield each event as a Server-Sent Event. Only the last event of a place carries the place, so none is lost."""
    for event, following in zip_longest(events, events[1:]):
        last = following is None or following.id != event.id
        place = b"id: %d\n" % event.id if last and event.id is not None else b""
        yield b"%bevent: %b\ndata: %b\n\n" % (place, event.topic.encode(), event.data)
