"""The events for one client, in order, independent of how they are sent."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from itertools import count

from corral.api.events.event_batches import EventBatch, alone
from corral.api.events.event_feed import EventFeed, Observed
from corral.core.control.events.rows_of_facts import DEVICES, METRICS
from corral.core.model.answers.events import Event

PING_S = 15.0
"""The time between pings, which show the client that the stream is alive. At each ping its permission is checked."""

STALL_S = 10.0
"""A client that receives nothing for this time is disconnected."""

FAREWELL_S = 5.0
"""The time that a slow client then has to read the reason."""

OF_THE_STREAM = ("hello", "ping", "reset", "overflow")
"""The topics of messages about the stream itself. Every client gets them."""

_numbers = count(1)


class EventStream:
    """The events of some topics, from a place of the journal on (None: from now on).

    `allowed` is called at each ping. An error that it raises ends the stream.
    """

    def __init__(
        self,
        feed: EventFeed,
        user: str,
        topics: Collection[str],
        after: int | None,
        allowed: Callable[[], Awaitable[None]],
    ) -> None:
        self.topics = frozenset((*topics, *OF_THE_STREAM))
        self._feed = feed
        self._user = user
        self._asked = tuple(topics)
        self._after = after
        self._place = 0
        self._allowed = allowed

    async def batches(self) -> AsyncGenerator[EventBatch]:
        """Yield the batches to send, until the server stops. Each must have been sent before the next is requested.

        Raises the errors of `allowed`, and LedgerFailed.
        """
        feed, loop = self._feed, asyncio.get_running_loop()
        ping_at = loop.time() + PING_S
        observed = {one: one.newest() for one in self._observed()}
        self._place = feed.last if self._after is None else self._after
        yield self._hello()
        while not feed.closed:
            grown = feed.grown
            if loop.time() >= ping_at:
                await self._allowed()
                ping_at = loop.time() + PING_S
                yield self._said("ping", "alive")
            elif self._place != feed.last:
                batch = await self._next()
                yield batch
                self._place = batch.upto
            elif news := [(one, found) for one in observed if (found := one.after(observed[one])) is not None]:
                for one, (number, batch) in news:
                    observed[one] = number
                    yield batch
            else:
                await _until(grown, ping_at - loop.time())

    def overflow(self) -> EventBatch:
        """The last batch for a client that does not read."""
        why = f"nothing was read for {STALL_S:g} s; connect again to go on after event {self._place}"
        return self._said("overflow", "slow", why)

    def _observed(self) -> list[Observed]:
        """The sources of events that are not in the journal."""
        feed = self._feed
        return [one for topic, one in ((DEVICES, feed.conditions), (METRICS, feed.sampled)) if topic in self._asked]

    async def _next(self) -> EventBatch:
        """The next events of the journal, or a `reset` if the journal cannot continue from this place."""
        asked, newest = self._place, self._feed.last
        if asked > newest:
            return self._reset(
                "ahead", newest, f"the newest event here is {newest}, so event {asked} does not exist yet"
            )
        batch = await self._feed.behind(asked)
        if batch is None:
            return self._reset("gone", self._feed.last, f"the journal does not reach back to event {asked} any more")
        return batch

    def _hello(self) -> EventBatch:
        row = {"connection": next(_numbers), "user": self._user, "topics": self._asked, "ping_s": PING_S}
        return alone(Event("hello", "connected", self._place, self._now(), None, (row,)))

    def _reset(self, what: str, place: int, why: str) -> EventBatch:
        message = f"{why}; read all listings again, and continue from here"
        return EventBatch((Event("reset", what, place, self._now(), message=message),), place, place)

    def _said(self, topic: str, what: str, message: str | None = None) -> EventBatch:
        return alone(Event(topic, what, self._place, self._now(), message=message))

    def _now(self) -> float:
        return self._feed.clock.shown(self._feed.clock.now())


async def _until(grown: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await grown.wait()
    except TimeoutError:
        pass
