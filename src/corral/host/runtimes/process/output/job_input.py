"""Input for a running program, and the size of its terminal, sent from outside.

A supervisor receives datagrams at a socket in the directory of its launch, which no other user can enter. It passes as
much to the program as the program accepts at once, and stores nothing. It answers with the number of bytes that the
program has got so far. So a question may get lost or be repeated; the sender keeps bytes that were not taken. The other
side is `native/streams.c`.
"""

from corral.core.model.errors import Refused
from corral.core.model.jobs.input import MOST_CELLS, TerminalSize
from corral.wire import bytes_in

SOCKET = "input"
"""The socket's name in the directory of the launch."""

PORTION_BYTES = 65536
"""The most input in one question."""

LARGEST_OFFSET = (1 << 63) - 1
ANSWER_BYTES = 9

_WRITE, _WRITE_LAST, _RESIZE = b"w", b"e", b"r"
_OPEN, _CLOSED = b"o", b"c"


def portion_of(data: str, offset: int) -> bytes:
    """Return the bytes of a piece of input that was sent as base64. Raises Refused."""
    if not 0 <= offset <= LARGEST_OFFSET:
        raise Refused(f"no portion of input begins at byte {offset}", field="offset")
    return bytes_in(data, PORTION_BYTES, field="data")


def check_size(size: TerminalSize) -> None:
    """Raise Refused for a size that no terminal has."""
    if not (0 < size.rows <= MOST_CELLS and 0 < size.columns <= MOST_CELLS):
        raise Refused(f"{size.rows} rows and {size.columns} columns are no size of a terminal", field="size")


def write_request(offset: int, data: bytes, *, end: bool) -> bytes:
    """Return the request to pass these bytes to the program, from byte `offset` on. With `end` they are the
    last bytes.
    """
    return (_WRITE_LAST if end else _WRITE) + offset.to_bytes(8, "big") + data


def resize_request(rows: int, columns: int) -> bytes:
    """Return the request to set the size of the terminal."""
    return _RESIZE + rows.to_bytes(4, "big") + columns.to_bytes(4, "big")


def read_answer(answer: bytes) -> tuple[int, bool]:
    """Return the number of bytes that the program has got, and whether it takes more. Raises ValueError for an invalid
    answer.
    """
    if len(answer) != ANSWER_BYTES or answer[8:] not in (_OPEN, _CLOSED):
        raise ValueError("the answer is not from a supervisor")
    return min(int.from_bytes(answer[:8], "big"), LARGEST_OFFSET), answer[8:] == _OPEN
