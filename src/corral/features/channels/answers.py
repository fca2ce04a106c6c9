"""Answers about channels, without their URLs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """A channel of the site, or of a user (with `user`, without a name).

    Attributes:
        kind: the scheme of its URL; the rest is a secret.
        delivered: whether the last message was delivered, null before the first since the server's start.
        why: why it was not delivered.
    """

    name: str
    kind: str = ""
    user: str | None = None
    delivered: bool | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ChannelTest:
    """The result of a test message, after `seconds`; `why` says why it was not delivered."""

    channel: str
    delivered: bool = False
    why: str | None = None
    seconds: float = 0.0
