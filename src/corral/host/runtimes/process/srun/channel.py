"""The protocol between srun and a member: frames on a socket.

They are neither encrypted nor signed: an attacker who can change network traffic between the hosts of a job can change
them.
"""

import json
import selectors
import socket
import struct
from collections.abc import Iterator
from typing import Any

RANK = struct.Struct(">I")
"""The encoding of a member's rank."""

_FRAME = struct.Struct(">cI")
_MOST_BYTES = 64 * 1024 * 1024
_READ_BYTES = 64 * 1024

STEP, SIGNAL, OUTPUT, END = b"S", b"K", b"O", b"E"
"""The kinds of frames: a step to run and a signal for its tasks, from srun; a task's output and its end, from a
member.
"""

_HEARD = struct.Struct(">IB")


class Broken(Exception):
    """The connection has ended, or the other side cannot prove its identity or breaks the protocol."""


def exactly(line: socket.socket, count: int) -> bytes:
    """Receive `count` bytes of a blocking socket. Raises Broken at its end."""
    data = bytearray()
    while len(data) < count:
        piece = line.recv(count - len(data))
        if not piece:
            raise Broken("the connection ended")
        data += piece
    return bytes(data)


def send(line: socket.socket, kind: bytes, payload: bytes) -> None:
    """Send one frame. Raises OSError."""
    line.sendall(_FRAME.pack(kind, len(payload)) + payload)


def send_json(line: socket.socket, kind: bytes, value: Any) -> None:
    """Send one frame of JSON. Raises OSError."""
    send(line, kind, json.dumps(value).encode())


def send_output(line: socket.socket, rank: int, stream: int, data: bytes) -> None:
    """Send a task's output. Raises OSError."""
    send(line, OUTPUT, _HEARD.pack(rank, stream) + data)


def heard(payload: bytes) -> tuple[int, int, bytes]:
    """Return rank, stream and data of an OUTPUT frame."""
    return (*_HEARD.unpack_from(payload), payload[_HEARD.size :])


class Frames:
    """The frames received on a socket that is read when data is available."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._data = bytearray()

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the frames that are complete now. Raises Broken at the end of the connection."""
        try:
            piece = self._line.recv(_READ_BYTES)
        except OSError as error:
            raise Broken(f"the connection broke: {error.strerror}") from error
        if not piece:
            raise Broken("the connection ended")
        self._data += piece
        while len(self._data) >= _FRAME.size:
            kind, length = _FRAME.unpack_from(self._data)
            if length > _MOST_BYTES:
                raise Broken("a message that is too long")
            if len(self._data) < _FRAME.size + length:
                return
            payload = bytes(self._data[_FRAME.size : _FRAME.size + length])
            del self._data[: _FRAME.size + length]
            yield kind, payload


def serve(selector: selectors.BaseSelector, timeout_s: float | None) -> None:
    """Wait for ready descriptors and call their data, except for descriptors that an earlier call of the round has
    dropped.
    """
    for key, _ in selector.select(timeout_s):
        if selector.get_map().get(key.fd) is key:
            key.data()
