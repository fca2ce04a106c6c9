"""Channels: where people are told of alerts, and users of their jobs."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import text
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.core.model.answers.channels import ChannelRow, ChannelTest


class Channels:
    """Lists and tries channels, and sets the caller's own. No answer has the URL of one."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> "tuple[ChannelRow, ...]":
        """The caller's own channel, for administrators also those of the site."""
        from corral.core.model.answers.channels import ChannelRow

        return tuple(from_answer(ChannelRow, row) for row in self._transport.get("/channels")["channels"])

    def test(self, name: str | None = None) -> "ChannelTest":
        """Send a message to a channel of the site, or to the caller's own (None), once, and wait for the result."""
        from corral.core.model.answers.channels import ChannelTest

        if name is None:
            return from_answer(ChannelTest, self._transport.post("/own-channel/test"))
        called = quote(text(name, "name", "'ops'"), safe="")
        return from_answer(ChannelTest, self._transport.post(f"/channels/{called}/test"))

    def set_own(self, url: str) -> "ChannelRow":
        """Have the caller told through this URL of apprise's, which the server keeps and shows to nobody."""
        from corral.core.model.answers.channels import ChannelRow

        body = {"url": text(url, "url", "'ntfys://ntfy.sh/TOPIC'")}
        return from_answer(ChannelRow, self._transport.post("/own-channel", body))

    def remove_own(self) -> None:
        """Forget the caller's channel, and what waits for it."""
        self._transport.post("/own-channel/remove")
