"""Where a log begins that is not shown from its beginning."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.answers.logs import Read
from corral.api.routes import log_routes
from corral.api.routes.log_routes import last_lines, line_of

PIECE_BYTES = 7


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(log_routes, "PIECE_BYTES", PIECE_BYTES)
    yield
    patch.undo()


def reads(data: bytes, asked: list[int] | None = None) -> Read:
    async def read(offset: int) -> bytes:
        if asked is not None:
            asked.append(offset)
        return data[offset : offset + PIECE_BYTES]

    return read


def tail(data: bytes, lines: int) -> bytes:
    return data[asyncio.run(last_lines(reads(data), len(data), lines)) :]


@given(text=st.text("ab\n", max_size=60), lines=st.integers(0, 20))
def test_the_last_lines_are_those_that_python_would_take(text: str, lines: int) -> None:
    data = text.encode()
    whole = data.splitlines(keepends=True)
    assert tail(data, lines) == b"".join(whole[max(0, len(whole) - lines) :])


def test_only_the_end_of_a_long_log_is_read() -> None:
    asked: list[int] = []
    data = b"line\n" * 100_000
    asyncio.run(last_lines(reads(data, asked), len(data), 2))
    assert len(asked) <= 2


def test_what_is_written_meanwhile_is_not_counted() -> None:
    data = b"a\nb\n"
    assert asyncio.run(last_lines(reads(data + b"c\nd\n"), len(data), 1)) == 2


def test_a_log_that_was_cut_meanwhile_is_begun_at_its_beginning() -> None:
    assert asyncio.run(last_lines(reads(b""), 30, 5)) == 0


@pytest.mark.parametrize(("at", "begins"), [(0, 0), (3, 3), (4, 3), (6, 6), (7, 6), (20, 20), (30, 30), (99, 30)])
def test_a_line_is_shown_from_its_beginning_unless_that_is_far_away(at: int, begins: int) -> None:
    data = b"ab\ncd\n" + b"x" * 24
    assert asyncio.run(line_of(reads(data), len(data), at)) == begins


def test_a_log_of_any_size_without_a_line_is_not_looked_through_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_routes, "LOOKED_THROUGH_BYTES", 10 * PIECE_BYTES)
    asked: list[int] = []
    data = b"a\n" + b"\0" * 1000
    begins = asyncio.run(last_lines(reads(data, asked), len(data), 10**12))
    assert (begins, len(asked)) == (len(data) - 10 * PIECE_BYTES, 10)
