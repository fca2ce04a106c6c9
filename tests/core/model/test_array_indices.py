"""Indices of arrays and elements that are named by them, read and written down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.errors import Refused
from corral.core.model.jobs.array_indices import MAX_ARRAY_SIZE, in_short, named_elements, parse_indices, spans

FEW = st.sets(st.integers(0, MAX_ARRAY_SIZE), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("17_3-5", (3, 4, 5)), ("17_[3-5]", (3, 4, 5)), ("17_3,4,5", (3, 4, 5)), ("17_[1,3,5-9:2]", (1, 3, 5, 7, 9)),
        ("17_[3-5%2]", (3, 4, 5)), ("17_[3]", (3,)), ("17_*", None), ("17_[*]", None),
    ],
)  # fmt: skip
def test_elements_are_named_by_ranges_lists_and_a_star(text: str, indices: tuple[int, ...] | None) -> None:
    assert named_elements(text) == ("17", indices)


@pytest.mark.parametrize("text", ["17", "17_3", "sweep", "", "a_[3-5]", "17-3", "_3-5"])
def test_other_words_name_no_elements(text: str) -> None:
    assert named_elements(text) is None


@pytest.mark.parametrize("text", ["17_", "17_[", "17_[3", "17_5-3", "17_[1,,3]", "17_a", "17_[0-10000]", "17_[٣]"])
def test_elements_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"^17_"):
        named_elements(text)


def test_a_long_list_of_ranges_is_not_read_beyond_what_an_array_can_have() -> None:
    with pytest.raises(Refused, match="too many"):
        parse_indices(",".join(["0-9999"] * 100_000))


@given(FEW)
def test_what_is_written_in_short_is_read_as_the_same_elements(indices: set[int]) -> None:
    text = in_short("17", indices)
    assert (named_elements(text) or ("17", (int(text.partition("_")[2]),))) == ("17", tuple(sorted(indices)))


def test_three_and_more_in_a_row_are_one_range_and_many_ranges_are_cut() -> None:
    assert spans([5, 0, 1, 2, 6]) == ["0-2", "5", "6"]
    assert in_short("17", [4]) == "17_4"
    assert in_short("17", range(0, 40, 2)) == "17_[0,2,4,6,8,10,12,14,...]"
