"""Input for a running program, and the size of its terminal, as they come from outside.

A supervisor is asked by datagrams at a socket in the directory of its launch, which no other user can enter. It gives
the program as much as that takes at once and keeps nothing, and answers with how much the program has been given so
far. So a question may get lost or be repeated, and whoever sends the input keeps what was not taken.
"""

import os
import socket
from contextlib import suppress

from .pseudo_terminal import resize

SOCKET = "input"
"""The socket's name in the directory of the launch."""

PORTION_BYTES = 65536
"""The most input in one question."""

LARGEST_OFFSET = (1 << 63) - 1
ANSWER_BYTES = 9

_HEADER_BYTES = 9
_WRITE, _WRITE_LAST, _RESIZE = b"w", b"e", b"r"
_OPEN, _CLOSED = b"o", b"c"


def write_request(offset: int, data: bytes, *, end: bool) -> bytes:
    """Give the program these bytes, the first of which has the number `offset`; with `end` they are the last."""
    return (_WRITE_LAST if end else _WRITE) + offset.to_bytes(8, "big") + data


def resize_request(rows: int, columns: int) -> bytes:
    """Set the size of the terminal."""
    return _RESIZE + rows.to_bytes(4, "big") + columns.to_bytes(4, "big")


def read_answer(answer: bytes) -> tuple[int, bool]:
    """How many bytes the program has been given, and whether it takes more. Raises ValueError for what is no answer."""
    if len(answer) != ANSWER_BYTES or answer[8:] not in (_OPEN, _CLOSED):
        raise ValueError("what came is no answer of a supervisor")
    return min(int.from_bytes(answer[:8], "big"), LARGEST_OFFSET), answer[8:] == _OPEN


class InputSocket:
    """Answers questions for one supervisor. It never waits.

    `to` is where the input goes, a descriptor that does not block. A pipe is closed after the last byte; the input of
    a terminal has no end, for its programs come and go.
    """

    __slots__ = ("_is_terminal", "_socket", "_taken", "_to")

    def __init__(self, directory: str, to: int, *, is_terminal: bool = False) -> None:
        """Raises OSError where no socket can be made in `directory`."""
        self._to = to
        self._is_terminal = is_terminal
        self._taken = 0
        self._socket = _bound(directory)

    def fileno(self) -> int:
        """Readable when there is a question."""
        return self._socket.fileno()

    def answer(self) -> None:
        """Take a question in, and answer it."""
        try:
            request, asker = self._socket.recvfrom(_HEADER_BYTES + PORTION_BYTES)
        except OSError:
            return
        if len(request) >= _HEADER_BYTES:
            self._do(request[:1], request[1:_HEADER_BYTES], memoryview(request)[_HEADER_BYTES:])
        if asker:
            state = _CLOSED if self._to < 0 else _OPEN
            with suppress(OSError):
                self._socket.sendto(self._taken.to_bytes(8, "big") + state, asker)

    def close(self) -> None:
        """The program has ended."""
        self._close_input()
        self._socket.close()

    def _do(self, kind: bytes, header: bytes, data: memoryview) -> None:
        if kind in (_WRITE, _WRITE_LAST):
            offset = int.from_bytes(header, "big")
            self._write(offset, data)
            if kind == _WRITE_LAST and not self._is_terminal and self._taken == offset + len(data):
                self._close_input()
        elif kind == _RESIZE and self._is_terminal and self._to >= 0:
            with suppress(OSError):
                resize(self._to, int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big"))

    def _write(self, offset: int, data: memoryview) -> None:
        new = data[self._taken - offset :] if offset <= self._taken else b""
        if not new or self._to < 0:
            return
        try:
            self._taken += os.write(self._to, new)
        except BlockingIOError:
            return
        except OSError:
            # Nobody has it open to read any more.
            self._close_input()

    def _close_input(self) -> None:
        if self._to >= 0:
            os.close(self._to)
            self._to = -1


def _bound(directory: str) -> socket.socket:
    inside = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    usual_umask = os.umask(0o177)
    try:
        # Through the descriptor, for a path may be longer than a socket's.
        made.bind(f"/proc/self/fd/{inside}/{SOCKET}")
    except OSError:
        made.close()
        raise
    finally:
        os.umask(usual_umask)
        os.close(inside)
    return made
