"""How much may be sent: bounds on each body, and on all that are being read or worked on at once."""

from collections import Counter

from starlette.requests import ClientDisconnect, Request

from corral.api.errors import Busy, TooLarge
from corral.model.errors import Refused
from corral.model.units import format_bytes

MAX_BODY_BYTES = 64 * 1024
"""Of whatever has no bound of its own."""

MAX_SUBMIT_BYTES = 4 * 1024 * 1024
MAX_BATCH_BYTES = 32 * 1024 * 1024
MAX_IN_FLIGHT_BYTES = 64 * 1024 * 1024

_INSTEAD = {
    MAX_SUBMIT_BYTES: "; shorten the command or the environment, and leave data in files",
    MAX_BATCH_BYTES: "; send the batch in parts",
}


class InFlight:
    """The bytes of all bodies that are being read or worked on.

    One user may have half of what is taken, so that nobody who stalls keeps the others out.
    """

    def __init__(self, most_bytes: int = MAX_IN_FLIGHT_BYTES) -> None:
        self._most = most_bytes
        self._of: Counter[str] = Counter()

    def take(self, user: str, count: int) -> None:
        """Count so many bytes more of a user's. Raises Busy, counting nothing, where there is no room for them."""
        half = self._most // 2
        if self._of[user] + count > half:
            raise Busy(f"{format_bytes(half)} of {user}'s requests are being worked on already; try again in a moment")
        if self.taken() + count > self._most:
            raise Busy(f"{format_bytes(self._most)} of requests are being worked on already; try again in a moment")
        self._of[user] += count

    def taken(self) -> int:
        """How many there are, of all users."""
        return self._of.total()

    def give_back(self, user: str, count: int) -> None:
        """The opposite of `take`."""
        self._of[user] -= count
        if not self._of[user]:
            del self._of[user]


class Intake:
    """The body of one request, which may have `most` bytes and counts as in flight until `close`."""

    __slots__ = ("_in_flight", "_taken", "_user", "most")

    def __init__(self, in_flight: InFlight, user: str, most: int) -> None:
        self.most = most
        self._in_flight = in_flight
        self._user = user
        self._taken = 0

    def refuse_announced(self, request: Request) -> None:
        """Raises TooLarge for a body that says itself to be too large, before any of it is read."""
        for name, value in request.scope["headers"]:
            if name == b"content-length" and int(value) > self.most:
                raise self._too_large(int(value))

    async def bytes_of(self, request: Request) -> bytes:
        """The body. Raises TooLarge as soon as it is, Busy where there is no room for it, Refused if it breaks off."""
        chunks: list[bytes] = []
        size = 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size > self.most:
                    raise self._too_large(None)
                if chunk:
                    self._take(len(chunk))
                    chunks.append(chunk)
        except ClientDisconnect:
            raise Refused("the body broke off before its end") from None
        return b"".join(chunks)

    def close(self) -> None:
        """The request has been answered."""
        if self._taken:
            self._in_flight.give_back(self._user, self._taken)
            self._taken = 0

    def _take(self, count: int) -> None:
        self._in_flight.take(self._user, count)
        self._taken += count

    def _too_large(self, size: int | None) -> TooLarge:
        """`size` None is that of a body which does not say how large it is."""
        most, instead = format_bytes(self.most), _INSTEAD.get(self.most, "")
        if size is None:
            return TooLarge(f"the request has more than the {most} that are taken here{instead}")
        over = format_bytes(size - self.most)
        return TooLarge(f"the request has {format_bytes(size)}, {over} more than the {most} taken here{instead}")
