import pytest

from corral.core.control.metrics.exposition import Row, family, histograms, labelled, text_of
from corral.histogram import Histogram
from tests.core.control.metrics.reading import named, rows_of

HOSTILE = (
    'a"} 1\ncorral_jobs{queue="x',
    "back\\slash\\",
    '\\"',
    "\\n",
    "\n",
    "\r\x1b[31m\x00\u2028",
    "ü漢",
    "a,b={}",
)


@pytest.mark.parametrize("value", HOSTILE)
def test_any_label_value_comes_back_as_it_was_and_makes_no_row_of_its_own(value: str) -> None:
    text = text_of(family("a_name", "gauge", "Help.", [Row(labelled(label=value, other="x"), 1)]))
    lines = text.decode().split("\n")
    assert len(lines) == 4  # the help, the type, one row, and the end of the last line
    if "\r" not in value:
        assert named(rows_of(text), "a_name") == [({"label": value, "other": "x"}, 1.0)]


def test_what_cannot_be_written_as_utf_8_is_still_a_row() -> None:
    text = text_of(family("a_name", "gauge", "Help.", [Row(labelled(label="\ud800"), 1)]))
    assert named(rows_of(text), "a_name") == [({"label": "?"}, 1.0)]


def test_an_empty_label_is_left_out_and_a_family_without_rows_is_silent() -> None:
    assert labelled(a="", b="") == ""
    assert labelled(a="", b="1") == '{b="1"}'
    assert list(family("a_name", "gauge", "Help.", [])) == []
    assert list(histograms("a_name", "Help.", [])) == []


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (1.0, "1"), (2.5, "2.5"), (10**18, "1000000000000000000")])
def test_numbers_are_written_so_that_they_read_the_same(value: float, text: str) -> None:
    assert list(family("n", "gauge", "Help.", [Row("", value)]))[-1] == f"n {text}"


def test_a_histogram_ends_with_infinity_which_is_its_count() -> None:
    histogram = Histogram((0.5, 2.0))
    for value in (0.1, 1, 30):
        histogram.add(value)
    lines = list(histograms("h", "Help.", [({"queue": "q"}, histogram)]))
    assert lines[2:] == [
        'h_bucket{queue="q",le="0.5"} 1',
        'h_bucket{queue="q",le="2"} 2',
        'h_bucket{queue="q",le="+Inf"} 3',
        'h_sum{queue="q"} 31.1',
        'h_count{queue="q"} 3',
    ]
