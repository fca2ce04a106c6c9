"""A Gaussian process goes through what is sure, averages what is noisy, and knows what does not matter."""

import numpy as np
import pytest

from corral.features.tuner.search.regression import GaussianProcess, Lengths, Points, learn


def points(rows: list[list[float]], *ordered: bool) -> Points:
    return Points(np.array(rows), ordered or (True,) * len(rows[0]))


def test_it_goes_through_what_is_sure_and_is_unsure_where_nothing_is_near() -> None:
    measured = points([[0.0], [0.5], [1.0]])
    values = np.array([[1.0, 10.0], [3.0, 30.0], [2.0, 20.0]])
    process = GaussianProcess(measured, values, np.ones(3), Lengths((0.3,), 1e-6))
    mean, deviation = process.predict(points([[0.0], [0.5], [0.25]]))
    assert mean[:2, 0] == pytest.approx([1.0, 3.0], abs=0.01)
    assert mean[:, 1] == pytest.approx(10 * mean[:, 0])
    assert deviation[0, 0] < deviation[2, 0] / 5


def test_a_noisier_value_counts_less() -> None:
    measured = points([[0.5], [0.5]])
    process = GaussianProcess(measured, np.array([[0.0], [1.0]]), np.array([1.0, 9.0]), Lengths((1.0,), 0.01))
    assert process.predict(points([[0.5]]))[0][0, 0] == pytest.approx(0.1, abs=0.02)


def test_a_column_that_does_not_matter_gets_a_longer_length() -> None:
    random = np.random.default_rng(1)
    rows = random.random((40, 2))
    lengths = learn(Points(rows, (True, True)), np.sin(6 * rows[:, :1]), np.ones(40))
    assert lengths.of_columns[1] > 3 * lengths.of_columns[0]
    assert lengths.noise < 0.01


def test_places_of_a_column_without_order_are_equally_far_apart() -> None:
    one = points([[0.0, 0.0], [0.0, 0.5], [0.0, 1.0]], True, False)
    assert one.distances(one, [1.0, 2.0])[0] == pytest.approx([0.0, 0.25, 0.25])
    assert one.column_distances()[1][0] == pytest.approx([0.0, 1.0, 1.0])
