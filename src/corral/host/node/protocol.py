"""The protocol between server and agent: frames of JSON with the calls of `corral.host.node.agent_calls`.

A frame is its length, four bytes with the highest first, and that many bytes of JSON. The agent greets a new connection
with `{"corral-agent": VERSION, "node": NAME, "version": OF_CORRAL}`, or with an error. An agent that serves a server on
another host waits for that server's claim before it greets (`corral.host.node.agent_claim`).

Then one call follows the other: `{"call": "launches.stop", "arguments": {"launch_id": "4.1"}}` is answered with
`{"result": ...}` or with `{"error": "Refused", "message": ..., "field": ...}`, named by the class that is raised again
on the other side. Fields of values that have their default value are left out.
"""

import json
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

from corral.core.model import errors
from corral.core.model.errors import BackendFailed, CorralError, LedgerFailed, Refused

VERSION = 3
"""The version of the protocol: it grows with changes that an older side would misunderstand."""

OLDEST_WATCHED = 2
"""The oldest version of an agent that a server still watches: it reads news, reports and logs there, stops jobs and
forgets them, and starts none.
"""

GREETING = "corral-agent"

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""The most bytes of a frame: enough for thousands of launches with their environments."""

MAX_MESSAGE = 2000
"""The most characters of an error that are read."""

_LENGTH = struct.Struct(">I")
_READ_BYTES = 256 * 1024

_ERRORS: Mapping[str, type[CorralError]] = {
    name: kind
    for name, kind in vars(errors).items()
    # The ledger is the server's own: no agent has anything to say about it.
    if isinstance(kind, type) and issubclass(kind, CorralError) and kind is not LedgerFailed
}


class BadFrame(Exception):
    """The received bytes are no frame of this protocol; the connection is no longer usable."""


class Closed(Exception):
    """The other side has closed the connection."""


def plain_error(error: CorralError) -> dict[str, Any]:
    """Return an error as an answer. A class that the other side does not know is replaced by its nearest known base
    class.
    """
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS)
    return {"error": name, "message": str(error), "field": getattr(error, "field", None)}


def error_of(answer: Mapping[str, Any]) -> CorralError | None:
    """Return the error in an answer, None if the answer is a result."""
    if "error" not in answer:
        return None
    kind = _ERRORS.get(str(answer["error"]), BackendFailed)
    message, field = str(answer.get("message"))[:MAX_MESSAGE], answer.get("field")
    return (
        kind(message, field=field if isinstance(field, str) else None) if issubclass(kind, Refused) else kind(message)
    )


def send(connection: socket.socket, message: Mapping[str, Any], until: float | None = None) -> None:
    """Send a frame. Raises OSError, TimeoutError at `until` (time.monotonic), and BadFrame if it is too large."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MAX_FRAME_BYTES:
        raise BadFrame(f"a message of {len(data)} bytes is larger than the {MAX_FRAME_BYTES} that one may have")
    connection.settimeout(_left_s(until))
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket, until: float | None = None, most_bytes: int = MAX_FRAME_BYTES) -> dict[str, Any]:
    """Return the next message. Raises Closed, BadFrame, OSError, and TimeoutError at `until` (time.monotonic)."""
    return message_in(receive_frame(connection, until, most_bytes))


def message_in(frame: bytes) -> dict[str, Any]:
    """Return the message in the bytes of a frame. Raises BadFrame."""
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"a message is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadFrame("a message is no JSON object")
    return message


def receive_frame(connection: socket.socket, until: float | None, most_bytes: int) -> bytes:
    """Return the bytes of the next frame. Raises as `receive` does."""
    header = _read(connection, _LENGTH.size, until, may_end=True)
    (length,) = _LENGTH.unpack(header)
    if length > most_bytes:
        raise BadFrame(f"a message of {length} bytes was announced, and one may have {most_bytes}")
    return _read(connection, length, until)


def _read(connection: socket.socket, length: int, until: float | None, *, may_end: bool = False) -> bytes:
    # The buffer grows with the received bytes: an announced length alone takes no memory.
    data = bytearray()
    while len(data) < length:
        connection.settimeout(_left_s(until))
        piece = connection.recv(min(length - len(data), _READ_BYTES))
        if not piece:
            if may_end and not data:
                raise Closed("it has closed the connection")
            raise BadFrame("a message breaks off")
        data += piece
    return bytes(data)


def _left_s(until: float | None) -> float | None:
    if until is None:
        return None
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
