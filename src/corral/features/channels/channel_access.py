"""The use cases of channels: list them, test them, and manage the user's own channel."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from corral.clock import Clock
from corral.config.channel_url import kind_of
from corral.core.access.caller import Caller
from corral.core.access.permissions import must_be_admin
from corral.core.model.errors import Conflict, NotFound, Refused, nearest
from corral.core.model.severity import Severity
from corral.features.channels.answers import ChannelRow, ChannelTest
from corral.features.channels.channel_process import ChannelProcess, Outcome, Outgoing
from corral.features.channels.delivery import Delivery
from corral.features.channels.message import AlertMessage, AlertState
from corral.features.channels.outbox import UserChannel
from corral.features.channels.wording import outgoing

OWN_INTERVAL_S = 2.0
"""The shortest interval between two checks or tests of a URL by one user."""


class ChannelAccess:
    """The use cases of channels. Thread-safe."""

    def __init__(self, delivery: Delivery, clock: Clock) -> None:
        self._delivery = delivery
        self._clock = clock
        self._site_test = threading.Lock()
        self._user_process = threading.Lock()
        self._asked_at: dict[str, float] = {}

    def rows(self, caller: Caller) -> list[ChannelRow]:
        """Return the channels that the caller may see, without URLs: the caller's own, and for administrators the
        site's too.
        """
        rows = []
        if caller.admin or caller.overseer:
            for name, channel in sorted(self._delivery.channels.items()):
                rows.append(_row(name, channel.kind, None, self._delivery.last(name)))
        own = self._delivery.own(caller.user)
        if own is not None:
            rows.append(_row("", kind_of(own.url), own.user, self._delivery.last_of_user(caller.user)))
        return rows

    def test(self, name: str, caller: Caller) -> ChannelTest:
        """Send a message to a channel of the site once, and wait for the result.

        Raises Forbidden, NotFound, and Conflict while another channel of the site is tested.
        """
        must_be_admin(caller, "testing a channel of the site")
        channel = self._delivery.channels.get(name)
        if channel is None:
            known = self._delivery.channels
            hint = nearest(name, known) if known else "the setting `channels` names none"
            raise NotFound(f"there is no channel {name!r:.80}; {hint}")
        begun = self._clock.monotonic()
        with _one_at_a_time(self._site_test, "another channel is tested just now"):
            outcome = ChannelProcess().send(channel.url, self._test_message(f"channel {name}", caller))
        self._delivery.tried(name, outcome)
        return ChannelTest(name, outcome.delivered, outcome.why, self._clock.monotonic() - begun)

    def test_own(self, caller: Caller) -> ChannelTest:
        """As `test`, with the caller's own channel."""
        own = self._delivery.own(caller.user)
        guard = None if own is None else self._delivery.guard_of(own)
        if own is None or guard is None:
            raise NotFound("you have no channel; set one: corral channels set")
        self._must_be_allowed(kind_of(own.url))
        begun = self._clock.monotonic()
        message = self._test_message(f"the channel of {caller.user}", caller)
        with self._one_of_user(caller):
            outcome = ChannelProcess().send(own.url, message, guard)
        self._delivery.tried_of_user(caller.user, outcome)
        return ChannelTest("", outcome.delivered, outcome.why, self._clock.monotonic() - begun)

    def set_own(self, url: str, caller: Caller) -> ChannelRow:
        """Set the caller's channel, in place of an earlier one. Raises Refused, BackendFailed."""
        kind = kind_of(url)
        self._must_be_allowed(kind)
        if caller.uid is None:
            raise Refused(f"there is no user {caller.user!r:.80} on the server's machine", field="url")
        with self._one_of_user(caller):
            problem = ChannelProcess().ask_to_check([url])[0]
        if problem is not None:
            raise Refused(f"url: {problem}", field="url")
        self._delivery.forget_user(caller.user)
        self._delivery.set_user(UserChannel(caller.user, caller.uid, url, self._clock.now()))
        return ChannelRow("", kind, caller.user)

    def remove_own(self, caller: Caller) -> None:
        """Delete the caller's channel and its waiting messages. Raises NotFound."""
        if self._delivery.own(caller.user) is None:
            raise NotFound("you have no channel")
        self._delivery.forget_user(caller.user)

    @contextmanager
    def _one_of_user(self, caller: Caller) -> Iterator[None]:
        """Admit one process of a user per OWN_INTERVAL_S, and one of all users at a time. Raises Conflict."""
        now = self._clock.monotonic()
        left_s = self._asked_at.get(caller.user, now - OWN_INTERVAL_S) + OWN_INTERVAL_S - now
        if left_s > 0:
            raise Conflict(f"you have tried a channel just now; try again in {math.ceil(left_s)} s")
        with _one_at_a_time(self._user_process, "another user tries a channel just now"):
            self._asked_at = {user: at for user, at in self._asked_at.items() if now - at < OWN_INTERVAL_S}
            self._asked_at[caller.user] = now
            yield

    def notes(self, caller: Caller) -> tuple[str, ...]:
        """Return what is missing before the caller can be notified about jobs; () if nothing is. Reads no file."""
        if self._delivery.own(caller.user) is not None:
            return ()
        return ("notify-on: you have no channel for messages; set one: corral channels set",)

    def _must_be_allowed(self, kind: str) -> None:
        kinds = self._delivery.rules.kinds
        if kind not in kinds:
            allowed = f"this site allows {', '.join(kinds)}" if kinds else "this site allows users no channels"
            raise Refused(f"url: a channel of the kind {kind} is not allowed to users; {allowed}", field="url")

    def _test_message(self, subject: str, caller: Caller) -> Outgoing:
        now = self._clock.now()
        message = AlertMessage(
            id=f"test-{time.time_ns()}",
            rule="channel-test",
            severity=Severity.INFO,
            subject=subject,
            state=AlertState.FIRED,
            since=now,
            at=now,
            value=None,
            sentence=f"This is a test by {caller.user}. Nothing has happened.",
        )
        return self._delivery.signed(outgoing(message, since=self._clock.shown(now)))


def _row(name: str, kind: str, user: str | None, last: Outcome | None) -> ChannelRow:
    return ChannelRow(name, kind, user, None if last is None else last.delivered, None if last is None else last.why)


@contextmanager
def _one_at_a_time(lock: threading.Lock, otherwise: str) -> Iterator[None]:
    if not lock.acquire(blocking=False):
        raise Conflict(f"{otherwise}; try again in half a minute")
    try:
        yield
    finally:
        lock.release()
