"""Threads that send the messages of queues: one message of each queue at a time, in order."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from corral.clock import Clock
from corral.core.model.errors import BackendFailed
from corral.features.channels.channel_process import ChannelProcess, Outcome, Outgoing
from corral.features.channels.channel_queue import ChannelQueue, Pace
from corral.features.channels.outbox import Outbox, Waiting
from corral.features.channels.wording import as_one

log = logging.getLogger(__name__)

MOST_INCOMING = 10_000
"""The most messages that wait to be stored; only a hanging disk lets so many wait."""

_AFTER_FAULT_S = 1.0

_END_S = 1.0
"""The time for which a stopping server waits for a message in delivery."""

Attempt = Callable[[str, Outgoing, ChannelProcess], Outcome | None]
"""Tries once to send a message through a channel; None if the channel no longer exists."""

MostAtOnce = Callable[[str], int]
"""Returns how many messages of a group may be combined into one for a channel."""

Report = Callable[[str, Waiting, str, str | None], None]
"""Called with a channel, a message, a result (`delivered`, `retried`, `given_up`, `dropped`), and its reason."""


class SendingThreads:
    """Several queues served by `count` threads, which start with the first message. `put` never blocks."""

    def __init__(
        self,
        name: str,
        count: int,
        pace: Pace,
        outbox: Outbox,
        clock: Clock,
        *,
        attempt: Attempt,
        report: Report,
        most_at_once: MostAtOnce = lambda _: 1,
    ) -> None:
        self._name = name
        self._count = count
        self._pace = pace
        self._outbox = outbox
        self._clock = clock
        self._attempt = attempt
        self._report = report
        self._most_at_once = most_at_once
        self._changed = threading.Condition()
        self._incoming: deque[tuple[str, Waiting]] = deque()
        self._queues: dict[str, ChannelQueue] = {}
        self._busy: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._processes: list[ChannelProcess] = []
        self._closing = False
        self._disk_failed = False

    def put(self, channel: str, message: Outgoing) -> bool:
        """Have a message stored and sent. Return False if there is no room for it."""
        waiting = Waiting(message, self._clock.now())
        with self._changed:
            if self._closing or len(self._incoming) >= MOST_INCOMING:
                return False
            self._incoming.append((channel, waiting))
            self._begin()
            self._changed.notify()
        return True

    def put_written(self, channel: str, waiting: list[Waiting]) -> None:
        """Send messages that the outbox has already."""
        with self._changed:
            dropped = self._enqueue(channel, waiting)
            if waiting:
                self._begin()
                self._changed.notify()
        self._drop(channel, dropped)

    def forget(self, channel: str) -> int:
        """Drop the waiting messages of the channel. Return their number."""
        with self._changed:
            queue = self._queues.pop(channel, None)
            return 0 if queue is None else queue.clear()

    def failures(self, channel: str) -> int:
        """Return the number of failed tries in a row."""
        queue = self._queues.get(channel)
        return 0 if queue is None else queue.failures

    def close(self) -> None:
        """Stop. Messages that were not sent stay in the outbox."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_END_S)
        for process in self._processes:
            process.stop()
        for thread in self._threads:
            thread.join(_END_S)

    def _begin(self) -> None:
        if self._threads:
            return
        for number in range(self._count):
            process = ChannelProcess()
            name = self._name if self._count == 1 else f"{self._name}-{number}"
            self._processes.append(process)
            self._threads.append(threading.Thread(target=self._run, args=(process,), name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    def _run(self, process: ChannelProcess) -> None:
        while True:
            with self._changed:
                channel, incoming = self._next()
                if channel is None and not incoming:
                    return
            try:
                if incoming:
                    self._take(incoming)
                if channel is not None:
                    self._try(channel, process)
            except Exception:
                # No decision depends on messages, so an error here does not end the server.
                log.exception("%s: a round failed unexpectedly; it goes on (please report this)", self._name)
                self._pause(channel)

    def _pause(self, channel: str | None) -> None:
        """Pause after an error, so that a repeated error does not take a whole processor."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, _AFTER_FAULT_S)
            if channel is not None:
                self._busy.discard(channel)
                self._changed.notify()

    def _next(self) -> tuple[str | None, list[tuple[str, Waiting]]]:
        """Return a channel whose next try is due, or the incoming messages; neither if this is closed."""
        while True:
            incoming = list(self._incoming)
            self._incoming.clear()
            if incoming:
                return None, incoming
            if self._closing:
                return None, []
            now = self._clock.monotonic()
            due = [
                (at, channel)
                for channel, queue in self._queues.items()
                if channel not in self._busy and (at := queue.due_at(now)) is not None
            ]
            first = min(due, default=None)
            if first is not None and first[0] <= now:
                self._busy.add(first[1])
                return first[1], []
            self._changed.wait(None if first is None else first[0] - now)

    def _take(self, incoming: list[tuple[str, Waiting]]) -> None:
        """Store incoming messages. If the disk accepts none, they are sent anyway."""
        by_channel: dict[str, list[Waiting]] = {}
        for channel, waiting in incoming:
            by_channel.setdefault(channel, []).append(waiting)
        for channel, messages in by_channel.items():
            try:
                new = self._outbox.take(channel, messages)
                self._disk_failed = False
            except BackendFailed as error:
                self._say_disk_failed(error)
                new = messages
            with self._changed:
                dropped = self._enqueue(channel, new)
                self._changed.notify()
            self._drop(channel, dropped)

    def _enqueue(self, channel: str, messages: list[Waiting]) -> list[Waiting]:
        queue = self._queues.setdefault(channel, ChannelQueue(self._pace))
        return [dropped for one in messages if (dropped := queue.put(one)) is not None]

    def _drop(self, channel: str, dropped: list[Waiting]) -> None:
        if dropped:
            self._settle(lambda: self._outbox.drop(channel, [one.message.id for one in dropped]))
        for one in dropped:
            self._report(channel, one, "dropped", f"more than {self._pace.most_waiting} messages wait")

    def _try(self, channel: str, process: ChannelProcess) -> None:
        with self._changed:
            queue = self._queues.get(channel)
            heads = [] if queue is None else queue.heads(self._most_at_once(channel))
        outcome = None if queue is None or not heads else self._tried(channel, heads, queue, process)
        with self._changed:
            self._busy.discard(channel)
            self._changed.notify()
            # The channel may have been removed meanwhile. A try that was ended by the stop does not count.
            if queue is None or not heads or self._queues.get(channel) is not queue:
                return
            if outcome is None:
                queue.clear()
            if self._closing and outcome is not None and not outcome.delivered:
                return
            result = "" if outcome is None else self._settled(queue, heads, outcome)
        if outcome is None:
            self._settle(lambda: self._outbox.drop(channel))
            return
        self._note(channel, heads, result)
        for one in heads if result == "delivered" else heads[:1]:
            self._report(channel, one, result, outcome.why)

    def _tried(
        self, channel: str, heads: list[Waiting], queue: ChannelQueue, process: ChannelProcess
    ) -> Outcome | None:
        """Make one attempt to send, and return its outcome. An unexpected error counts as a failed attempt, so a
        message that always raises one is dropped in the end."""
        try:
            return self._attempt(channel, _told(heads, queue), process)
        except Exception as error:
            log.exception("channel %s: sending failed unexpectedly (please report this)", channel)
            return Outcome(False, f"the server has a fault ({type(error).__name__}); its log says more")

    def _settled(self, queue: ChannelQueue, heads: list[Waiting], outcome: Outcome) -> str:
        now = self._clock.monotonic()
        if outcome.delivered:
            queue.delivered(now, heads)
            return "delivered"
        return "given_up" if queue.failed(now, self._clock.now()) else "retried"

    def _note(self, channel: str, heads: list[Waiting], result: str) -> None:
        """Store the result of a try."""
        ids = [one.message.id for one in heads]
        if result == "delivered":
            self._settle(lambda: self._outbox.sent(channel, ids, self._clock.now()))
        elif result == "given_up":
            self._settle(lambda: self._outbox.drop(channel, ids[:1]))

    def _settle(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BackendFailed as error:
            self._say_disk_failed(error)

    def _say_disk_failed(self, error: BackendFailed) -> None:
        if not self._disk_failed:
            log.error("messages cannot be saved, and would be lost with this server: %s", error)
        self._disk_failed = True


def _told(heads: list[Waiting], queue: ChannelQueue) -> Outgoing:
    """Return the messages combined into one, with the number of messages that were dropped before them."""
    message = as_one([one.message for one in heads])
    if not queue.dropped:
        return message
    return replace(message, body=f"{message.body}\n({queue.dropped} messages before it were dropped: too many waited)")
