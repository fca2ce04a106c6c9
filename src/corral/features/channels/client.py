"""Channels: the ways in which people receive alerts, and users receive messages about their jobs."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import text
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.features.channels.answers import ChannelRow, ChannelTest


class Channels:
    """Lists and tests channels, and sets the caller's own. No answer contains the URL of a channel."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> "tuple[ChannelRow, ...]":
        """The caller's own channel; for administrators also the channels of the site."""
        from corral.features.channels.answers import ChannelRow

        return tuple(from_answer(ChannelRow, row) for row in self._transport.get("/channels")["channels"])

    def test(self, name: str | None = None) -> "ChannelTest":
        """Send one message to a channel of the site, or to the caller's own (None), and wait for the result."""
        from corral.features.channels.answers import ChannelTest

        if name is None:
            return from_answer(ChannelTest, self._transport.post("/own-channel/test"))
        called = quote(text(name, "name", "'ops'"), safe="")
        return from_answer(ChannelTest, self._transport.post(f"/channels/{called}/test"))

    def set_own(self, url: str) -> "ChannelRow":
        """Send messages for the caller to this apprise URL. The server stores the URL and shows it to nobody."""
        from corral.features.channels.answers import ChannelRow

        body = {"url": text(url, "url", "'ntfys://ntfy.sh/TOPIC'")}
        return from_answer(ChannelRow, self._transport.post("/own-channel", body))

    def remove_own(self) -> None:
        """Delete the caller's channel and the messages that wait for it."""
        self._transport.post("/own-channel/remove")
