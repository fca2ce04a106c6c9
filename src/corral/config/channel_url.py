"""Channels: URLs, which hold secrets, through which people get messages."""

import re
from dataclasses import dataclass, field
from hashlib import sha256

from corral.core.model.errors import Refused

MAX_URL_LENGTH = 2048

LOCAL_KINDS = frozenset(
    {"blink1", "dbus", "file", "glib", "gnome", "kde", "macosx", "qt", "script", "syslog", "windows"}
)
"""The kinds of channels that act on the server's own machine."""

SAFE_KINDS = (
    "discord", "gchat", "jsons", "mailtos", "ntfys", "pover", "slack", "tgram", "workflows", "zulip",
)  # fmt: skip
"""The kinds of channels that users may have unless the site says otherwise: each uses only HTTPS or encrypted SMTP."""

_KIND = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31})://.", re.ASCII)


@dataclass(frozen=True, slots=True)
class Channel:
    """A named place to send messages to. Neither `repr` nor `str` shows the URL, which is a secret.

    Attributes:
        url: in the syntax of apprise (https://appriseit.com).
    """

    name: str
    url: str = field(repr=False)

    @property
    def kind(self) -> str:
        """The scheme of the URL: "slack", "mailtos", "jsons"."""
        return kind_of(self.url)

    def __str__(self) -> str:
        # The digits distinguish two URLs, and are too few to find out the URL.
        return f"{self.name} ({self.kind}, {sha256(self.url.encode()).hexdigest()[:4]})"


def kind_of(url: str) -> str:
    """The kind of a channel's URL. Raises Refused if it is not one; the message does not show the URL."""
    found = _KIND.match(url)
    if found is None or len(url) > MAX_URL_LENGTH or not (url.isascii() and url.isprintable()) or " " in url:
        raise Refused(
            f"this is not the URL of a channel (it is not shown, for it may hold a secret): write KIND://..., such as "
            f"jsons://HOST/PATH, in at most {MAX_URL_LENGTH} ASCII characters without blanks",
            field="url",
        )
    return found[1].lower()
