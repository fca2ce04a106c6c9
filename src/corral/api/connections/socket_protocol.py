"""WebSockets that can be closed although their client does not read. Each begins as a `PeerProtocol`."""

import asyncio

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol


class EventSocketProtocol(WSProtocol):
    """A WebSocket; `scope["state"]["finish_within"]` is `finish_within`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "finish_within": self.finish_within}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.app_state["left"]()
        # Both refer to this connection, whose memory is freed as soon as nobody uses it.
        self.app_state, self.scope = {}, {}  # type: ignore[typeddict-item]

    def finish_within(self, timeout_s: float) -> None:
        """Accept the rest of the data although the client does not read. Disconnect the client after `timeout_s`."""
        self.writable.set()
        self.loop.call_later(timeout_s, self.transport.abort)
