"""Input for a running program, and the size of its terminal, as they come from outside.

A supervisor is asked by datagrams at a socket in the directory of its launch, which no other user can enter. It gives
the program as much as that takes at once and keeps nothing, and answers with how much the program has been given so
far. So a question may get lost or be repeated, and whoever sends the input keeps what was not taken. The other side is
`native/streams.c`.
"""

SOCKET = "input"
"""The socket's name in the directory of the launch."""

PORTION_BYTES = 65536
"""The most input in one question."""

LARGEST_OFFSET = (1 << 63) - 1
ANSWER_BYTES = 9

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
