"""What a client is told for long ends when the client goes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from anyio import CancelScope


async def until_gone(gone: Callable[[], Coroutine[None, None, None]], tell: Callable[[], Awaitable[None]]) -> None:
    """Return when `tell` has; it is cancelled when `gone` returns. Raises what `tell` does."""
    # A task group would leave what it cancels, with the request's head, in a cycle for the garbage collector.
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
