"""End a long transmission when its client goes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from anyio import CancelScope


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
