"""Answers that take Python long to compute: only a few run at a time, and none for a client that has gone."""

from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread
from starlette.requests import Request

from corral.api.answers.errors import Busy
from corral.api.answers.waiting import EndSignal
from corral.api.requests.request_turns import UserTurns, whose_request

T = TypeVar("T")


class LongAnswers:
    """Computes answers of one kind on worker threads, at most `at_once` at a time. Users take turns.

    Requests that wait hold no thread. More threads would not be faster, because Python runs one thread at a time, but
    would delay all other requests.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._turns = UserTurns(at_once, of_a_user=at_once, rests=True)

    async def make(self, request: Request, call: Callable[[], T]) -> T:
        """Return the result of `call`. Raises Busy, and calls nothing, if the server stops or the client has gone."""
        ends: EndSignal = request.app.state.corral.ends
        async with self._turns.turn(whose_request.get()):
            if ends.closed:
                raise Busy("the server stops; ask again once it is back")
            if await request.is_disconnected():
                raise Busy("whoever asked has gone")
            return await to_thread.run_sync(call)
