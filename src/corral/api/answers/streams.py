"""Answers that are sent piece by piece, and can break off so that they do not look complete."""

import asyncio
from functools import partial

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from corral.api.connections.until_gone import until_gone
from corral.core.model.errors import BackendFailed


class BrokenOff(Exception):
    """The server stops before all is said; the end of what was sent must not look like the end of the answer."""


class PiecewiseResponse(StreamingResponse):
    """Sends pieces. If they break off, the connection is closed without the last chunk, which tells the client."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await until_gone(partial(self.listen_for_disconnect, receive), partial(self.stream_response, send))
        except (BrokenOff, BackendFailed):
            scope["state"]["hang_up"]()
            # The loop gets to close the connection before the server looks whether the answer was completed.
            await asyncio.sleep(0)
