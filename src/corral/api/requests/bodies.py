"""Size limits of request bodies: for each body, and for all bodies that are being handled at the same time."""

from collections import Counter

from starlette.requests import ClientDisconnect, Request

from corral.api.answers.errors import Busy, TooLarge
from corral.core.model.errors import Refused
from corral.core.model.units import format_bytes

MAX_BODY_BYTES = 64 * 1024
"""The most bytes of a body whose route sets no limit."""

MAX_SUBMIT_BYTES = 12 * 1024 * 1024
"""Room for a script of 4 MiB and all other fields. As JSON, text may take twice as many bytes."""
MAX_BATCH_BYTES = 32 * 1024 * 1024
MAX_IN_FLIGHT_BYTES = 64 * 1024 * 1024

_INSTEAD = {
    MAX_SUBMIT_BYTES: "; shorten the command or the environment, and keep data in files",
    MAX_BATCH_BYTES: "; send several smaller batches",
}


class InFlight:
    """Counts the bytes of all bodies that are being handled.

    One user may have at most half of the limit, so that a user who sends slowly does not lock out the others.
    """

    def __init__(self, most_bytes: int = MAX_IN_FLIGHT_BYTES) -> None:
        self._most = most_bytes
        self._of: Counter[str] = Counter()

    def take(self, user: str, count: int) -> None:
        """Count this many more bytes for a user. Raises Busy, and counts nothing, if that would exceed the limit."""
        half = self._most // 2
        if self._of[user] + count > half:
            raise Busy(
                f"{user} already has {format_bytes(half)} of requests in progress, the limit; try again in a moment"
            )
        if self.taken() + count > self._most:
            raise Busy(
                f"the server already has {format_bytes(self._most)} of requests in progress; try again in a moment"
            )
        self._of[user] += count

    def taken(self) -> int:
        """The bytes in flight of all users together."""
        return self._of.total()

    def give_back(self, user: str, count: int) -> None:
        """End the counting of bytes that `take` has counted."""
        self._of[user] -= count
        if not self._of[user]:
            del self._of[user]


class Intake:
    """Reads the body of one request, of at most `most` bytes, which counts as in flight until `close`."""

    __slots__ = ("_in_flight", "_taken", "_user", "most")

    def __init__(self, in_flight: InFlight, user: str, most: int) -> None:
        self.most = most
        self._in_flight = in_flight
        self._user = user
        self._taken = 0

    def refuse_announced(self, request: Request) -> None:
        """Raise TooLarge if the request's content-length is too large, before any of the body is read."""
        for name, value in request.scope["headers"]:
            if name == b"content-length" and int(value) > self.most:
                raise self._too_large(int(value))

    async def bytes_of(self, request: Request) -> bytes:
        """Return the body. Raises TooLarge beyond `most`, Busy if too much is in flight, Refused if the client
        disconnects.
        """
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
            raise Refused("the connection closed before the whole body had arrived; send the request again") from None
        return b"".join(chunks)

    def close(self) -> None:
        """Give back the counted bytes, because the request has been answered."""
        if self._taken:
            self._in_flight.give_back(self._user, self._taken)
            self._taken = 0

    def _take(self, count: int) -> None:
        self._in_flight.take(self._user, count)
        self._taken += count

    def _too_large(self, size: int | None) -> TooLarge:
        """The error for a body of `size` bytes; None if the request does not state its size."""
        most, instead = format_bytes(self.most), _INSTEAD.get(self.most, "")
        if size is None:
            return TooLarge(f"the request body is larger than the limit of {most}{instead}")
        over = format_bytes(size - self.most)
        return TooLarge(f"the request body has {format_bytes(size)}, {over} more than the limit of {most}{instead}")
