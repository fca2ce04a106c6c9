from itertools import pairwise

from corral.histogram import SECONDS, SIZES, WAIT_SECONDS, Histogram


def test_a_value_is_counted_up_to_the_first_bound_that_is_not_below_it() -> None:
    histogram = Histogram((1.0, 10.0))
    for value in (0.5, 1.0, 1.5, 10.0, 11.0):
        histogram.add(value)
    assert list(histogram.buckets()) == [(1.0, 2), (10.0, 4), (float("inf"), 5)]
    assert histogram.sum == 24.0


def test_a_new_histogram_has_every_bound_with_no_value() -> None:
    assert list(Histogram((1.0,)).buckets()) == [(1.0, 0), (float("inf"), 0)]


def test_bounds_go_up() -> None:
    assert all(low < high for bounds in (SECONDS, WAIT_SECONDS, SIZES) for low, high in pairwise(bounds))
