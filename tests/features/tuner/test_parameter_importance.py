"""Which parameters say how good an experiment was."""

from itertools import product
from random import Random

from corral.features.tuner.tasks.parameter_importance import importances

GRID = [{"big": big, "small": small, "nothing": nothing} for big, small, nothing in product(range(4), repeat=3)]


def test_a_parameter_that_decides_alone_has_it_all_and_one_that_does_nothing_has_nothing() -> None:
    found = importances([(one, float(one["big"])) for one in GRID])
    assert [(one.name, one.values) for one in found] == [("big", 4), ("nothing", 4), ("small", 4)]
    assert found[0].part is not None
    assert found[0].part > 0.99
    assert [one.part for one in found[1:]] == [0.0, 0.0]


def test_parts_are_in_the_order_of_what_parameters_do_however_far_off_the_worst_scores_are() -> None:
    scores = [10.0 * one["big"] + one["small"] + (1e9 if one["big"] == 3 else 0) for one in GRID]
    parts = {one.name: one.part for one in importances(list(zip(GRID, scores, strict=True)))}
    assert parts["big"] > parts["small"] > parts["nothing"] == 0.0  # type: ignore[operator]


def test_chance_makes_no_parameter_important() -> None:
    random = Random(7)
    measured = [({"x": random.random(), "kind": random.choice("abc")}, random.random()) for _ in range(400)]
    for one in importances(measured):
        assert one.part is not None
        assert one.part < 0.05


def test_where_too_little_was_measured_nothing_is_claimed() -> None:
    assert importances([]) == ()
    assert importances([({"a": 1}, 1.0)]) == ()
    assert [one.part for one in importances([({"a": 1}, 1.0), ({"a": 2}, 2.0)])] == [None]
    assert [one.part for one in importances([({"a": at % 2}, 1.0) for at in range(4)])] == [None]


def test_a_bare_flag_is_another_value_than_one_and_a_list_is_a_value_too() -> None:
    values = [True, 1, True, 1, [1], [1]]
    (found,) = importances([({"a": value}, float(at)) for at, value in enumerate(values)])
    assert found.values == 3
