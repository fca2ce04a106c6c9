"""Answers that take Python long to make: few at a time, and none that nobody waits for any more."""

from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread
from starlette.requests import Request

from corral.api.answers.errors import Busy
from corral.api.answers.waiting import EndSignal
from corral.api.requests.user_turns import UserTurns, whose_request

T = TypeVar("T")


class LongAnswers:
    """Makes answers of one kind on worker threads, so many at once; the others wait without one, and users take turns.

    More at once would be no sooner there, as one thread of Python runs at a time, but would hold up all else.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._turns = UserTurns(at_once, of_a_user=at_once, rests=True)

    async def make(self, request: Request, call: Callable[[], T]) -> T:
        """What the call returns. Raises Busy, and calls nothing, if the server stops or the client has gone by then."""
        ends: EndSignal = request.app.state.corral.ends
        async with self._turns.turn(whose_request.get()):
            if ends.closed:
                raise Busy("the server stops; ask again once it is back")
            if await request.is_disconnected():
                raise Busy("whoever asked has gone")
            return await to_thread.run_sync(call)
