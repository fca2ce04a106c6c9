"""What routes that are WebSockets share."""

from collections.abc import Awaitable, Callable

from anyio import create_task_group

CLOSED_MESSAGE = 1008
CLOSED_FAILED = 1011
CLOSED_RESTART = 1012
CLOSED_FORBIDDEN = 4003
CLOSED_SLOW = 4008
"""Codes with which a WebSocket is closed, as docs/events.md lists them."""


async def either(one: Callable[[], Awaitable[None]], other: Callable[[], Awaitable[None]]) -> None:
    """Return when one of the two has."""
    async with create_task_group() as tasks:

        async def run(call: Callable[[], Awaitable[None]]) -> None:
            await call()
            tasks.cancel_scope.cancel()

        tasks.start_soon(run, one)
        tasks.start_soon(run, other)
