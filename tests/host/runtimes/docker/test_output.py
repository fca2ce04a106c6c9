from collections.abc import Iterable, Iterator

import pytest

from corral.host.runtimes.docker.output import OutputCopy

DAY = "2026-11-22T19:26:"


def frame(stamp: str, text: str, *, error: bool = False) -> bytes:
    payload = f"{DAY}{stamp}Z {text}".encode()
    return bytes([2 if error else 1, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def texts(copy: OutputCopy, blocks: Iterable[bytes]) -> list[str]:
    return [("!" if is_error else "") + data.decode() for is_error, data in copy.new(blocks)]


LINES = [
    frame("01.000000001", "one\n"),
    frame("01.000000002", "two\n"),
    frame("01.000000002", "three\n"),
    frame("01.000000003", "oops\n", error=True),
    frame("02.000000000", "a line without its end"),
]
ALL = ["one\n", "two\n", "three\n", "!oops\n", "a line without its end"]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pieces_come_whole_however_the_stream_is_cut(size: int) -> None:
    stream = b"".join(LINES)
    assert texts(OutputCopy(), (stream[at : at + size] for at in range(0, len(stream), size))) == ALL


def test_what_the_daemon_says_of_its_own_trouble_is_no_output_and_no_place_to_go_on_from() -> None:
    copy, said = OutputCopy(), b"Error grabbing logs: unexpected EOF\n"
    trouble = bytes([3, 0, 0, 0]) + len(said).to_bytes(4, "big") + said
    first = texts(copy, [*LINES[:2], trouble])
    assert copy.since
    assert first + texts(copy, LINES) == ALL


@pytest.mark.parametrize("broken_after", range(len(LINES) + 1))
def test_read_again_after_a_break_nothing_comes_twice_and_nothing_is_lost(broken_after: int) -> None:
    copy = OutputCopy()
    first = texts(copy, LINES[:broken_after])
    assert first + texts(copy, LINES) == ALL


def test_a_piece_that_was_not_copied_to_its_end_comes_again() -> None:
    copy = OutputCopy()

    def broken() -> Iterator[bytes]:
        yield from LINES[:2]
        raise ConnectionError

    with pytest.raises(ConnectionError):
        texts(copy, broken())
    assert texts(copy, LINES) == ALL[2:]


def test_a_frame_that_was_cut_off_is_left_for_the_next_time() -> None:
    copy = OutputCopy()
    assert texts(copy, [LINES[0], LINES[1][:20]]) == ["one\n"]
    assert texts(copy, LINES[:2]) == ["two\n"]


def test_it_is_read_again_from_shortly_before_what_was_copied_last() -> None:
    copy = OutputCopy()
    assert copy.since == ""
    texts(copy, LINES)
    assert copy.since == "1795375560"  # 2026-11-22T19:26:00Z


def test_a_clock_that_is_set_back_loses_nothing_while_the_stream_holds() -> None:
    assert texts(OutputCopy(), [frame("09.000000000", "late\n"), frame("01.000000000", "early\n")]) == [
        "late\n",
        "early\n",
    ]
