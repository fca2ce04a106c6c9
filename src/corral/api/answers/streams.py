"""Answers that are sent piece by piece. If one breaks off, the client can tell that it is not complete."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial

from anyio import CancelScope
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from corral.core.model.errors import BackendFailed


async def until_gone(gone: Callable[[], Coroutine[None, None, None]], tell: Callable[[], Awaitable[None]]) -> None:
    """Return when `tell` has returned. Cancel it when `gone` returns. Raises the errors of `tell`."""
    # A task group would leave the cancelled task, with the request's head, in a cycle for the garbage collector.
    with CancelScope() as telling:

        def cancel(_: object) -> None:
            telling.cancel()

        watch = asyncio.create_task(gone())
        watch.add_done_callback(cancel)
        try:
            await tell()
        finally:
            watch.remove_done_callback(cancel)
            watch.cancel()


class BrokenOff(Exception):
    """The server stops before the answer is complete. The client must be able to see that the answer is cut."""


class PiecewiseResponse(StreamingResponse):
    """Sends pieces. If they break off, the connection closes without the last chunk, so the client sees the break."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await until_gone(partial(self.listen_for_disconnect, receive), partial(self.stream_response, send))
        except (BrokenOff, BackendFailed):
            scope["state"]["hang_up"]()
            # Let the loop close the connection before the server checks whether the answer was completed.
            await asyncio.sleep(0)
