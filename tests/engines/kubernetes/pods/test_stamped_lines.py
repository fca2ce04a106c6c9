from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from corral.engines.kubernetes.pods.stamped_lines import MOST_BYTES_OF_LINE, LogPosition, new_lines


def stamped(second: int, text: str, nano: int = 0, zone: str = "Z") -> bytes:
    return f"2026-11-22T10:00:{second:02}.{nano:09}{zone} {text}\n".encode()


BEGINNING = LogPosition()


def read(blocks: list[bytes], position: LogPosition = BEGINNING, *, whole: bool = False) -> tuple[bytes, LogPosition]:
    pieces = list(new_lines(blocks, position, whole=whole))
    return b"".join(text for text, _ in pieces), pieces[-1][1] if pieces else position


def test_all_is_new_at_first_and_nothing_at_a_second_reading() -> None:
    log = [stamped(1, "a") + stamped(2, "b")]
    text, position = read(log)
    assert text == b"a\nb\n"
    assert read(log, position) == (b"", position)


def test_of_lines_of_one_time_none_is_lost_and_none_doubled() -> None:
    log = [stamped(1, "a") + stamped(1, "b")]
    _, position = read(log)
    assert read([*log, stamped(1, "c"), stamped(2, "d")], position)[0] == b"c\nd\n"


def test_a_log_that_was_turned_over_goes_on_where_it_is_now() -> None:
    _, position = read([stamped(1, "a") + stamped(2, "b")])
    assert read([stamped(3, "c")], position)[0] == b"c\n"


def test_half_a_line_counts_once_it_is_whole_or_nothing_follows() -> None:
    log = [stamped(1, "a"), b"2026-11-22T10:00:02.000000000Z 50 %"]
    text, position = read(log)
    assert text == b"a\n"
    assert read(log, position, whole=True)[0] == b"50 %"


def test_what_a_kubelet_says_between_the_lines_is_none_of_the_containers() -> None:
    said = b"rpc error: code = Unknown desc = Error: No such container: 0a1b\n"
    log = [stamped(1, "a"), said, stamped(2, "b")]
    for end in (said, said.rstrip(b"\n")):
        text, position = read([*log, end], whole=True)
        assert text == b"a\nb\n"
        assert read([*log, said, stamped(3, "c")], position)[0] == b"c\n"


def test_a_long_line_is_one_whatever_is_written_in_it() -> None:
    first, rest = b"x" * MOST_BYTES_OF_LINE, stamped(9, "no line of its own")
    log = [stamped(1, "").rstrip(b"\n"), first, rest, stamped(2, "b")]
    assert read(log)[0] == first + rest + b"b\n"


def test_clocks_that_are_changed_by_an_hour_turn_no_line_back() -> None:
    before, after = stamped(1, "summer", zone="+02:00"), stamped(2, "winter", zone="+01:00")
    _, position = read([before])
    assert read([before + after], position)[0] == b"winter\n"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.text("ab ", max_size=3)), max_size=12),
    st.lists(st.integers(0, 400), max_size=4),
    st.integers(0, 12),
)
def test_however_it_is_cut_and_begun_again_each_line_comes_once(
    drawn: list[tuple[int, str]], cuts: list[int], reading: int
) -> None:
    lines = [stamped(second, text) for second, text in sorted(drawn, key=lambda one: one[0])]
    whole = b"".join(lines)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    blocks = [whole[a:b] for a, b in pairwise(edges)]
    first, position = read([b"".join(lines[:reading])])
    rest, _ = read(blocks, position)
    assert first + rest == b"".join(line.partition(b" ")[2] for line in lines)


def test_a_line_without_end_is_not_kept_in_memory() -> None:
    blocks = (b"x" * 65536 for _ in range(200))
    first = b"2026-11-22T10:00:01.000000000Z "
    pieces = [len(text) for text, _ in new_lines(chain([first], blocks), BEGINNING, whole=True)]
    assert sum(pieces) == 200 * 65536
    assert max(pieces) <= 2 * MOST_BYTES_OF_LINE
