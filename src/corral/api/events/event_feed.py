"""The newest events, kept once for all clients. Each client has a place in them and reads at its own pace.

The ledger's thread only wakes the feed: one call for each commit, whatever the number of clients, and none without
clients. A client that is too slow for the kept events reads the journal, like one that connects again. So no client has
a queue.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from anyio import CapacityLimiter, to_thread

from corral.api.answers.errors import Busy
from corral.api.events.event_batches import EventBatch
from corral.clock import Clock
from corral.core.control.events.device_events import DeviceSamples, changes_of_condition
from corral.core.control.events.journal_events import JournalEvents, Published
from corral.core.control.events.rows_of_facts import CORE_TOPICS, DEVICES, METRICS, RowsOfFact, Told
from corral.core.model.answers.events import Event
from corral.core.model.fact import Delta
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.ports.telemetry import Samples

MOST_CLIENTS = 1_024
MOST_OF_A_USER = 256

KEPT_BYTES = 1 << 20
"""The size of the newest events that are kept, as JSON. Their encoded forms for each set of topics come on top."""

PAUSE_AN_ENTRY_S = 0.02
LONGEST_PAUSE_S = 0.1
"""The pause after entries were sent, in which the next ones are collected. A single entry is sent at once, and many
commits a second cause at most ten batches a second.
"""

_SAMPLES_KEPT = 8
_CONDITIONS_KEPT = 64
_NEWS_KEPT = 64
_AGAIN_S = 1.0

log = logging.getLogger(__name__)


class Observed:
    """The newest batches of events that are not in the journal, each with a number."""

    def __init__(self, kept: int) -> None:
        self._batches: deque[tuple[int, EventBatch]] = deque(maxlen=kept)

    def add(self, event: Event) -> None:
        self._batches.append((self.newest() + 1, EventBatch((event,))))

    def newest(self) -> int:
        """The number of the newest batch."""
        return self._batches[-1][0] if self._batches else 0

    def after(self, number: int) -> tuple[int, EventBatch] | None:
        """The oldest kept batch with a higher number, with its number; None if there is none."""
        return next((each for each in self._batches if each[0] > number), None)


class EventFeed:
    """The events of a server, for clients that follow them. For one event loop, except for `on_change` and `close`."""

    def __init__(self, journal: JournalEvents, samples: DeviceSamples, clock: Clock, interval_s: float) -> None:
        """`interval_s` is the time between samples of devices."""
        self.clock = clock
        self.last = 0
        self.closed = False
        self._journal = journal
        self._samples = samples
        self._interval_s = interval_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._clients: Counter[str] = Counter()
        self._grown = asyncio.Event()
        self._changed = asyncio.Event()
        self._told = False
        self._view = View()
        self._news: deque[Published] = deque(maxlen=_NEWS_KEPT)
        self._recent: deque[EventBatch] = deque()
        self._by_place: dict[int, EventBatch] = {}
        self._kept_bytes = 0
        self.sampled = Observed(_SAMPLES_KEPT)
        self.conditions = Observed(_CONDITIONS_KEPT)
        self._watching = 0
        self._threads = CapacityLimiter(2)
        self._replay = CapacityLimiter(1)
        self._one_replay = asyncio.Lock()

    def on_change(self, view: View, deltas: Sequence[Delta]) -> None:
        """Keep the new deltas and wake the feed. A listener for `Ledger.subscribe`."""
        before, self._view = self._view, view
        if self._tasks:
            for told in changes_of_condition(before, deltas):
                self._call(partial(self._tell_condition, told))
            # The queue is bounded. Deltas that are pushed out before the feed reads them are read from the journal.
            self._news.append(Published(self._journal.position, deltas, before))
            if not self._told:
                self._told = True
                self._call(self._changed.set)

    def close(self) -> None:
        """End all clients, because the server stops. Safe from any thread."""
        self.closed = True
        self._call(self._wake)

    @contextlib.contextmanager
    def client(self, user: str, topics: Collection[str]) -> Iterator[None]:
        """Count one more client of this user while the context lasts. Raises Busy if there are too many."""
        if self._clients.total() >= MOST_CLIENTS:
            raise Busy(f"{MOST_CLIENTS:,} clients follow events, the limit; try again in a moment")
        if self._clients[user] >= MOST_OF_A_USER:
            raise Busy(f"{user} has {MOST_OF_A_USER} clients that follow events, the limit; close some of them")
        self._clients[user] += 1
        self._watching += METRICS in topics
        if not self._tasks:
            self._begin()
        try:
            yield
        finally:
            self._watching -= METRICS in topics
            self._clients[user] -= 1
            if not self._clients[user]:
                del self._clients[user]
            if not self._clients:
                self._end()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose events are in the journal. The topic `METRICS` exists in addition."""
        return tuple(self._journal.topics)

    @property
    def grown(self) -> asyncio.Event:
        """An event that is set when there is more than at this moment, or when the feed is closed."""
        return self._grown

    async def behind(self, after: int) -> EventBatch | None:
        """The next events of the journal after a place before `last`. None if the journal does not reach back there."""
        known = self._by_place.get(after)
        if known is not None:
            return known
        async with self._one_replay:
            oldest = self._recent[0].after if self._recent else self.last
            upto = oldest if after < oldest else self.last
            began = time.perf_counter()
            batch = await to_thread.run_sync(self._read, after, upto, limiter=self._replay)
            # A client that reads a long journal must leave half of the time to submissions and starts of jobs.
            await asyncio.sleep(time.perf_counter() - began)
            return batch

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        # The tasks exist before the position is read, so that everything committed from now on is sent.
        self._tasks = [self._loop.create_task(self._follow_journal()), self._loop.create_task(self._follow_samples())]
        self.last = self._journal.position

    def _end(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        self._told = False
        self._news.clear()
        self._recent.clear()
        self._by_place.clear()
        self._kept_bytes = 0

    def _call(self, what: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no client is left
                self._loop.call_soon_threadsafe(what)

    def _tell_condition(self, told: Told) -> None:
        at = self.clock.shown(self.clock.now())
        self.conditions.add(Event(DEVICES, told.what, None, at, "corral:telemetry", told.rows))
        self._wake()

    def _wake(self) -> None:
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    async def _follow_journal(self) -> None:
        while True:
            try:
                first = self.last
                while self.last < (newest := self._journal.position):
                    batch = await to_thread.run_sync(self._read_newest, newest, limiter=self._threads)
                    self._keep(batch or EventBatch((), self.last, newest))
                    self._wake()
                await asyncio.sleep(min(PAUSE_AN_ENTRY_S * (self.last - first), LONGEST_PAUSE_S))
                await self._changed.wait()
                self._changed.clear()
                self._told = False
            except Exception:
                log.exception("events could not be read; they are tried again")
                await asyncio.sleep(_AGAIN_S)

    async def _follow_samples(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s / 2)
            if not self._watching:
                continue
            try:
                rows = await to_thread.run_sync(self._samples.news, limiter=self._threads)
            except Exception:
                log.exception("samples could not be sent; they are tried again")
                continue
            if rows:
                event = Event(METRICS, "sampled", None, self.clock.shown(self.clock.now()), None, rows)
                self.sampled.add(event)
                self._wake()

    def _read_newest(self, newest: int) -> EventBatch | None:
        """The events after `last`: from the published deltas if they are complete, else from the journal."""
        while self._news and self._news[0].position <= self.last:
            self._news.popleft()
        page = self._journal.published(self.last, tuple(self._news))
        return self._read(self.last, newest) if page is None else EventBatch(page.events, page.after, page.upto)

    def _read(self, after: int, upto: int) -> EventBatch | None:
        page = self._journal.page(after, upto)
        return None if page.gap else EventBatch(page.events, page.after, page.upto)

    def _keep(self, batch: EventBatch) -> None:
        self.last = batch.upto
        self._recent.append(batch)
        self._by_place[batch.after] = batch
        self._kept_bytes += batch.size_bytes
        while self._kept_bytes > KEPT_BYTES and len(self._recent) > 1:
            oldest = self._recent.popleft()
            del self._by_place[oldest.after]
            self._kept_bytes -= oldest.size_bytes


def event_feed(
    ledger: Ledger, telemetry: Samples, clock: Clock, interval_s: float, topics: Mapping[str, RowsOfFact]
) -> EventFeed:
    """The feed of a server, subscribed to its ledger.

    `interval_s` is the time between samples of devices. `topics` are those of features.
    """
    journal = JournalEvents(ledger, clock, {**CORE_TOPICS, **topics})
    feed = EventFeed(journal, DeviceSamples(ledger.view, telemetry, clock), clock, interval_s)
    ledger.subscribe(feed.on_change)
    return feed
