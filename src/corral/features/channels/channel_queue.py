"""The waiting messages of one channel, and the time of the next try. Pure but for its own memory; its owner locks
it.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from corral.features.channels.outbox import Waiting

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
"""The pause between two tries of a channel; it doubles with each failure."""

MOST_TRIES, LONGEST_S = 20, 3600.0
"""A message is given up after this many tries, or if a try fails this long after it was accepted."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The limits of a channel: `most_waiting` messages, `burst` at once, and then one per `interval_s`."""

    most_waiting: int
    burst: int
    interval_s: float


SITE_PACE = Pace(most_waiting=1000, burst=1000, interval_s=0.0)
USER_PACE = Pace(most_waiting=100, burst=10, interval_s=30.0)


class ChannelQueue:
    """Messages in order of arrival. Times: `now` is monotonic, `at` the server's clock."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._tries = 0
        self._not_before = 0.0
        self._budget = float(pace.burst)
        self._budget_at = 0.0
        self.failures = 0
        """The number of tries in a row that have failed."""
        self.dropped = 0
        """The number of messages dropped for lack of room since the last delivery."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, one: Waiting) -> Waiting | None:
        """Add a message. Return a dropped one if there is no room for all: an old one, since the newest says most."""
        self._waiting.setdefault(one.message.id, one)
        if len(self._waiting) <= self._pace.most_waiting:
            return None
        ids = list(self._waiting)
        # The first message may be in delivery now.
        self.dropped += 1
        return self._waiting.pop(ids[1] if len(ids) > 1 else ids[0])

    def heads(self, most: int) -> list[Waiting]:
        """Return the next messages to send: the head, and the following ones of the same group and type, `most` at
        most.
        """
        found: list[Waiting] = []
        for one in self._waiting.values():
            first = found[0].message if found else one.message
            alike = one.message.group == first.group and one.message.type == first.type
            if len(found) >= most or not alike or (found and not first.group):
                break
            found.append(one)
        return found

    def due_at(self, now: float) -> float | None:
        """Return the time of the next try, None if no message waits."""
        if not self._waiting:
            return None
        lacking = 1.0 - self._budget_now(now)
        return max(self._not_before, now + max(0.0, lacking) * self._pace.interval_s)

    def delivered(self, now: float, messages: Sequence[Waiting]) -> None:
        """Remove these messages, which were delivered as one."""
        self._spend(now)
        for one in messages:
            self._waiting.pop(one.message.id, None)
        self._tries = self.failures = self.dropped = 0
        self._not_before = now

    def failed(self, now: float, at: float) -> bool:
        """Record a failed try of the head. Return True if the head is given up and removed."""
        self._spend(now)
        self.failures += 1
        self._tries += 1
        self._not_before = now + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self.failures - 1, 30))
        head = next(iter(self._waiting.values()))
        if self._tries < MOST_TRIES and at - head.taken_at < LONGEST_S:
            return False
        self._waiting.popitem(last=False)
        self._tries = 0
        return True

    def clear(self) -> int:
        """Remove all waiting messages. Return their number."""
        count = len(self._waiting)
        self._waiting.clear()
        self._tries = 0
        return count

    def _budget_now(self, now: float) -> float:
        if self._pace.interval_s <= 0:
            return float(self._pace.burst)
        return min(self._pace.burst, self._budget + max(0.0, now - self._budget_at) / self._pace.interval_s)

    def _spend(self, now: float) -> None:
        self._budget, self._budget_at = self._budget_now(now) - 1.0, now
