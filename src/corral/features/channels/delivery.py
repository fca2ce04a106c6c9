"""Delivers messages to channels: those of the site, and those of users. It implements `Sender`.

A message is first stored (`outbox`) and then sent by a separate process (`channel_process`). Failed tries are repeated
with growing pauses (`channel_queue`). A message is deleted once it is delivered or given up. No thread of the server
waits for any of these steps.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from corral.clock import Clock
from corral.config import Settings
from corral.config.channel_url import Channel, kind_of
from corral.core.model.errors import BackendFailed
from corral.core.model.severity import Severity
from corral.features.channels.channel_process import ChannelProcess, Guard, Outcome, Outgoing
from corral.features.channels.channel_queue import SITE_PACE, USER_PACE, Pace
from corral.features.channels.message import AlertMessage, AlertState
from corral.features.channels.outbox import Outbox, UserChannel, Waiting
from corral.features.channels.sending import SendingThreads
from corral.features.channels.wording import in_name_of, outgoing

log = logging.getLogger(__name__)

TROUBLED_AFTER = 3
"""The number of failed tries in a row after which the failure of a channel is reported."""

USERS = "users"
"""The key under which the results of all users' channels are counted."""

AS_ONE = 20
"""The most messages of a group that are combined into one."""

PROGRAM_KINDS = frozenset({"form", "forms", "json", "jsons", "xml", "xmls"})
"""Webhooks: they receive fields, and each message separately."""

_USER_THREADS = 3
_USER_PREFIX = "user:"
"""No channel of the site has a colon in its name."""


@dataclass(frozen=True, slots=True)
class UserChannelRules:
    """The rules for channels of users: the allowed kinds of URLs, and the allowed networks besides public addresses."""

    kinds: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()


class Delivery:
    """All channels of a server. Call `apply` first. Thread-safe."""

    def __init__(self, outbox: Outbox, clock: Clock, account: Callable[[str], tuple[int, int] | None]) -> None:
        """`account` returns uid and gid of a user by name, None if there is no such user."""
        self.outbox = outbox
        self._clock = clock
        self._account = account
        self._lock = threading.Lock()
        self._started = False
        self._channels: dict[str, Channel] = {}
        self._senders: dict[str, SendingThreads] = {}
        self._rules = UserChannelRules()
        self._cluster: str | None = None
        self._users = self._threads("user-channels", _USER_THREADS, USER_PACE)
        self._own: dict[str, UserChannel] = {}
        self._troubled: dict[str, float] = {}
        self._unknown: set[str] = set()
        self._last: dict[str, Outcome] = {}
        self.results: Counter[tuple[str, str]] = Counter()
        """The number of messages, by channel and result."""

    def apply(self, settings: Settings) -> None:
        """Use the channels of these settings. The first call also sends the messages that an earlier server left."""
        self._cluster = settings.cluster_name
        rules = UserChannelRules(settings.user_channel_kinds, settings.user_channel_networks)
        if self._started:
            self._set_channels(settings.channels, rules)
            return
        self._started = True
        left: dict[str, list[Waiting]] = {}
        try:
            if self.outbox.exists():
                self._troubled = self.outbox.failing()
                self._own = {own.user: own for own in self.outbox.users()}
                left = {name: self.outbox.waiting(name) for name in self.outbox.channels()}
        except BackendFailed as error:
            log.error("messages of an earlier server cannot be read: %s", error)
        self._set_channels(settings.channels, rules)
        for name, waiting in left.items():
            if name.startswith(_USER_PREFIX):
                self._users.put_written(name, waiting)
            elif name in self._senders:
                self._senders[name].put_written(name, waiting)
            else:
                self._drop_removed(name)

    def _set_channels(self, channels: Sequence[Channel], rules: UserChannelRules) -> None:
        """Replace the site's channels by these. Messages that wait for a removed channel are dropped."""
        named = {channel.name: channel for channel in channels}
        with self._lock:
            gone = [name for name in self._channels if name not in named]
            closing = [self._senders.pop(name) for name in gone]
            self._channels, self._rules = named, rules
            for name in named:
                if name not in self._senders:
                    self._senders[name] = self._threads(f"channel-{name}", 1, SITE_PACE)
        for name, sender in zip(gone, closing, strict=True):
            sender.close()
            self._drop_removed(name)

    @property
    def channels(self) -> Mapping[str, Channel]:
        """The site's channels by name."""
        return self._channels

    @property
    def rules(self) -> UserChannelRules:
        """The rules for channels of users."""
        return self._rules

    def signed(self, message: Outgoing) -> Outgoing:
        """Return the message with the name of the cluster, if the cluster has one."""
        return in_name_of(self._cluster, message)

    def last(self, channel: str) -> Outcome | None:
        """Return the result of the last try in a channel of the site, None before the first."""
        return self._last.get(channel)

    def tried(self, channel: str, outcome: Outcome) -> None:
        """Record the result of a try in a channel of the site that was made elsewhere."""
        self._last[channel] = outcome

    def tried_of_user(self, user: str, outcome: Outcome) -> None:
        """As `tried`, for a user's channel."""
        self._last[_USER_PREFIX + user] = outcome

    def last_of_user(self, user: str) -> Outcome | None:
        """As `last`, for a user's channel."""
        return self._last.get(_USER_PREFIX + user)

    def send(self, channel: str, message: AlertMessage) -> None:
        """Implements `corral.features.channels.message.Sender.send`. A repeated message is not sent again."""
        sender = self._senders.get(channel)
        if sender is None:
            if channel not in self._unknown:
                self._unknown.add(channel)
                log.error("there is no channel %r for alerts; define it in the setting `channels`", channel[:80])
            return
        if not sender.put(channel, outgoing(message, since=self._clock.shown(message.since))):
            self.results[channel, "dropped"] += 1

    def send_to_user(self, user: str, message: Outgoing) -> None:
        """Store a message for a user, to be sent soon. Does nothing for a user without a channel.

        When this returns the message survives the end of the server. A repeated message is not sent again. Raises
        BackendFailed.
        """
        if user not in self._own:
            return
        key = _USER_PREFIX + user
        self._users.put_written(key, self.outbox.take(key, [Waiting(message, self._clock.now())]))

    def own(self, user: str) -> UserChannel | None:
        """Return the channel of a user, None if there is none. Reads no file."""
        return self._own.get(user)

    def set_user(self, channel: UserChannel) -> None:
        """Set a user's channel. Raises BackendFailed."""
        self.outbox.set_user_channel(channel)
        self._own[channel.user] = channel

    def forget_user(self, user: str) -> None:
        """Delete a user's channel and its waiting messages. Raises BackendFailed."""
        self.outbox.remove_user_channel(user)
        self._own.pop(user, None)
        self.outbox.drop(_USER_PREFIX + user)
        self._users.forget(_USER_PREFIX + user)
        self._last.pop(_USER_PREFIX + user, None)

    def guard_of(self, own: UserChannel) -> Guard | None:
        """Return the restrictions of a user's channel. None means that nothing may be sent: the user no longer exists,
        or the name belongs to another uid.
        """
        account = self._account(own.user)
        if account is None or account[0] != own.uid:
            return None
        return Guard(account[0], account[1], self._rules.networks)

    def close(self) -> None:
        """Stop sending. The next server sends the remaining messages."""
        with self._lock:
            senders = [self._users, *self._senders.values()]
        closers = [threading.Thread(target=sender.close) for sender in senders]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        self.outbox.close()

    def _threads(self, name: str, count: int, pace: Pace) -> SendingThreads:
        return SendingThreads(
            name,
            count,
            pace,
            self.outbox,
            self._clock,
            attempt=self._attempt,
            report=self._report,
            most_at_once=self._most_at_once,
        )

    def _most_at_once(self, key: str) -> int:
        """Return how many messages may be combined into one: 1 for a program."""
        if key.startswith(_USER_PREFIX):
            own = self.own(key.removeprefix(_USER_PREFIX))
            kind = None if own is None else kind_of(own.url)
        else:
            kind = self._channels[key].kind if key in self._channels else None
        return 1 if kind in PROGRAM_KINDS else AS_ONE

    def _attempt(self, key: str, message: Outgoing, process: ChannelProcess) -> Outcome | None:
        if not key.startswith(_USER_PREFIX):
            channel = self._channels.get(key)
            return None if channel is None else process.send(channel.url, self.signed(message))
        own = self.own(key.removeprefix(_USER_PREFIX))
        if own is None:
            return None
        guard = self.guard_of(own)
        if guard is None:
            # This may be temporary: the directory of users may not answer.
            return Outcome(False, "its user is not known on the server's machine")
        if kind_of(own.url) not in self._rules.kinds:
            return Outcome(False, "the site does not allow its kind any more (user_channel_kinds)")
        return process.send(own.url, self.signed(message), guard)

    def _report(self, key: str, one: Waiting, result: str, why: str | None) -> None:
        of_user = key.startswith(_USER_PREFIX)
        self.results[USERS if of_user else key, result] += 1
        if result != "dropped":
            self._last[key] = Outcome(result == "delivered", why)
        what = f"the channel of user {key.removeprefix(_USER_PREFIX)}" if of_user else f"channel {key}"
        if result == "given_up":
            log.error("message %s was not delivered to %s and is given up: %s", one.message.id, what, why)
        elif result == "dropped":
            log.error("message %s for %s is dropped: %s", one.message.id, what, why)
        if not of_user:
            self._judge(key, result, why)

    def _judge(self, name: str, result: str, why: str | None) -> None:
        """Report through the other channels that this one fails, or works again."""
        sender = self._senders.get(name)
        if result == "delivered" and name in self._troubled:
            since = self._troubled.pop(name)
            log.warning("channel %s works again", name)
            self._note_trouble(name, None)
            self._tell_others(name, since, AlertState.RESOLVED, f"Channel {name} works again.")
        elif result in ("retried", "given_up") and name not in self._troubled and sender is not None:
            if sender.failures(name) < TROUBLED_AFTER:
                return
            since = self._troubled[name] = self._clock.now()
            log.error("channel %s does not work: %s", name, why)
            self._note_trouble(name, since)
            sentence = f"Messages to channel {name} are not delivered: {why}. Try it: corral alerts test {name}"
            self._tell_others(name, since, AlertState.FIRED, sentence)

    def _note_trouble(self, name: str, since: float | None) -> None:
        try:
            self.outbox.set_failing(name, since)
        except BackendFailed as error:
            log.warning("the state of channel %s is not recorded: %s", name, error)

    def _tell_others(self, name: str, since: float, state: AlertState, sentence: str) -> None:
        message = AlertMessage(
            id=f"channel-{name}-{int(since)}",
            rule="channel-failed",
            severity=Severity.WARNING,
            subject=f"channel {name}",
            state=state,
            since=since,
            at=self._clock.now(),
            value=None,
            sentence=sentence,
            labels=(("channel", name),),
        )
        for other in self._channels:
            if other != name and other not in self._troubled:
                self.send(other, message)

    def _drop_removed(self, name: str) -> None:
        try:
            waiting = len(self.outbox.waiting(name)) if self.outbox.exists() else 0
            if waiting:
                self.outbox.drop(name)
                log.warning("channel %s was removed: %d messages for it are not sent", name, waiting)
        except BackendFailed as error:
            log.warning("messages that waited for channel %s are left behind: %s", name, error)
        self._troubled.pop(name, None)
        self._last.pop(name, None)
