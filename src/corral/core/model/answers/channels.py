"""Answers about channels, without their URLs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """A channel of the site, or (with `user`, and no name) of a user.

    Attributes:
        kind: what its URL begins with; the rest is a secret.
        delivered: whether the last try succeeded, null before the first since the server began.
        why: why it did not.
    """

    name: str
    kind: str = ""
    user: str | None = None
    delivered: bool | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ChannelTest:
    """What came of a message that was sent for a test, after so many seconds; `why` it was not delivered."""

    channel: str
    delivered: bool = False
    why: str | None = None
    seconds: float = 0.0
