"""Receives events of the server, and sends requests, on threads of their own. Results wait in queues until fetched."""

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from corral.client import Client
from corral.client.connecting.transport import Transport
from corral.client.events import FollowedEvents
from corral.core.model.errors import CorralError
from corral.tui.board_news import JobsThatEnded, ListedDevices, News, Past, Snapshot, Waits, news_of
from corral.tui.sparks import MOST_STEPS, STEP_S

TOPICS = ("jobs", "devices", "alerts", "metrics")

MOST_NEWS = 20_000
"""The most changes that wait to be shown; while there are more, no events are read."""

MOST_QUESTIONS = 64
"""The most questions that wait for the server; a further one is refused."""

MOST_WAITS = 200
"""The most waiting jobs, oldest first, whose reason and expected start are listed."""

_AGAIN_S = 1.0


def read_snapshot(client: Client, at: float | None = None) -> Snapshot:
    """Read the whole state; `at` is the server's present time, if it has just sent it."""
    ahead_s = 0.0 if at is None else at - time.time()
    return Snapshot(client.server(), client.devices.list(), client.jobs.list(limit=None), ahead_s)


def read_devices(client: Client) -> ListedDevices:
    """Read all devices, with the facts that events do not carry."""
    return ListedDevices(client.devices.list())


def read_waits(client: Client) -> Waits:
    """Why the jobs wait that are likely next, and when they are expected to start."""
    return Waits(client.jobs.list(phase="PENDING", limit=MOST_WAITS, sort="id", starts=True))


def read_past(client: Client, uuid: str, now: float) -> Past:
    """Read the utilization of a device in the last minutes, by the server's clock."""
    since = now - MOST_STEPS * STEP_S
    found = client.devices.history(uuid, since=since, until=now + STEP_S, series=["utilization_pct"])
    return Past(uuid, tuple((point.t, point.mean) for point in found.series.get("utilization_pct", ())))


def read_ended(client: Client, most: int) -> JobsThatEnded:
    """The newest jobs that have ended."""
    return JobsThatEnded(client.jobs.list(all=True, phase="SUCCEEDED,FAILED,CANCELLED,TIMED_OUT,LOST", limit=most))


Connect = Callable[[], Client]
"""Makes a client of the server, for the thread that calls it."""


class Feed:
    """Events, beginning with a snapshot. It goes on as long as the program runs, with or without the server."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._news: queue.Queue[News] = queue.Queue(MOST_NEWS)
        self._events: FollowedEvents | None = None
        self._after: int | None = None
        self._trouble = ""
        self._since = time.time()
        threading.Thread(target=self._listen, name="events", daemon=True).start()

    def drain(self) -> list[News]:
        """Return the changes since the last call, in their order."""
        found = []
        with suppress(queue.Empty):
            for _ in range(MOST_NEWS):
                found.append(self._news.get_nowait())
        return found

    def away(self, now: float) -> str:
        """Return that the server does not answer, and since when; "" while it answers, or is asked for the first
        time.
        """
        if self._events is not None and self._events.connected:
            self._since = now
            return ""
        if not self._trouble and self._after is None:
            return ""
        since = time.strftime("%H:%M:%S", time.localtime(self._since))
        return f"as of {since}; {self._trouble or 'the server does not answer'}; trying again"

    def _listen(self) -> None:
        address = self._connect().address
        while True:
            self._events = FollowedEvents(Transport(address), TOPICS, self._after)
            try:
                for event in self._events:
                    self._hear(event)
                    self._trouble = ""
            except CorralError as error:
                self._trouble = str(error)
            time.sleep(_AGAIN_S)

    def _hear(self, event: Any) -> None:
        if event.id is not None:
            self._after = event.id
        if event.topic in ("hello", "reset"):
            with self._connect() as client:
                self._news.put(read_snapshot(client, event.at))
        for news in news_of(event):
            self._news.put(news)


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a question, and its receiver. One of `value` and `error` is None."""

    then: Callable[["Answered"], None]
    value: Any = None
    error: CorralError | None = None


class Asker:
    """Sends one question to the server after the other, on a thread and a connection of its own."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._questions: queue.Queue[tuple[Callable[[Client], Any], Callable[[Answered], None]]] = queue.Queue(
            MOST_QUESTIONS
        )
        self._answers: queue.SimpleQueue[Answered] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="questions", daemon=True).start()

    def ask(self, question: Callable[[Client], Any], then: Callable[[Answered], None]) -> bool:
        """Queue `question`; the caller of `drain` passes its answer to `then`. False if too many wait."""
        try:
            self._questions.put_nowait((question, then))
        except queue.Full:
            return False
        return True

    def drain(self) -> list[Answered]:
        """Return the answers since the last call. There are never more answers than questions."""
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._answers.get_nowait())
        return found

    def _work(self) -> None:
        with self._connect() as client:
            while True:
                question, then = self._questions.get()
                try:
                    self._answers.put(Answered(then, value=question(client)))
                except CorralError as error:
                    self._answers.put(Answered(then, error=error))
