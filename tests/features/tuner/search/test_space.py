"""A space is what the task's file says, and a file that cannot be meant is refused with what to write."""

from random import Random
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.features.tuner.search.space import ListedParameter, RangeParameter, read_space

HUGE = {"parameters": {f"p{n}": list(range(10)) for n in range(9)}}


def test_the_last_parameter_changes_fastest_and_empty_lists_are_left_out() -> None:
    chunk = {"type": "choice", "values": [64, 32]}
    space = read_space({"parameters": {"tp-size": [1, 2], "unused": [], "chunk": chunk}})
    assert space.size == 4
    assert [tuple(one.values()) for one in space.grid()] == [(1, 64), (1, 32), (2, 64), (2, 32)]


def test_parallel_and_quantised_fields_are_parameters_with_a_value_or_several() -> None:
    task = {"parallel_config": {"tp": [1, 2], "pp": 1}, "quant_config": {"kvcache_dtype": ["auto", "fp8_e5m2"]}}
    space = read_space(task)
    assert [one.name for one in space.parameters] == ["__parallel__tp", "__parallel__pp", "__quant__kvcache_dtype"]
    assert space.size == 4


def test_a_grid_of_a_thousand_million_is_counted_and_gone_through_without_being_made() -> None:
    space = read_space(HUGE)
    assert space.size == 10**9
    assert next(space.grid())["p8"] == 0
    assert space.has(space.draw(Random(1)))


def test_what_is_beyond_64_bits_is_not_counted() -> None:
    assert read_space({"parameters": {f"p{n}": [*range(10)] for n in range(18)}}).size == 10**18
    assert read_space({"parameters": {f"p{n}": [*range(10)] for n in range(19)}}).size is None


def test_ranges_have_a_size_only_as_integers_and_are_drawn_within_their_bounds() -> None:
    whole = {"type": "integer", "low": 1, "high": 64, "log": True}
    real = {"type": "continuous", "low": 0.5, "high": 0.9}
    assert read_space({"parameters": {"a": whole}}).size == 64
    space = read_space({"parameters": {"a": whole, "b": real}})
    assert space.size is None
    random = Random(0)
    assert all(space.has(space.draw(random)) for _ in range(200))


def test_steps_of_numbers_ascend_and_those_of_words_stay_as_written() -> None:
    assert ListedParameter("batch", (64, 8, 32)).steps == (8, 32, 64)
    assert ListedParameter("dtype", ("fp8", "bf16")).steps == ("fp8", "bf16")
    assert not ListedParameter("flag", (True, False)).ordered
    steps = RangeParameter("batch", 1, 1024, log=True, whole=True).steps
    assert (steps[0], steps[-1]) == (1, 1024)
    assert list(steps) == sorted(set(steps))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({}, "no parameters to try"),
        ({"parameters": {"a": []}}, "no parameters to try, for no values are given to 'a';"),
        ({"parameters": {"a": 4}}, "[4] for this one alone"),
        ({"parameters": {"a": [[1]]}}, "[1] is no text"),
        ({"parameters": {"a": {"type": "choise", "values": [1]}}}, "did you mean 'choice'?"),
        ({"parameters": {"a": {"type": "choice", "valus": [1]}}}, "did you mean 'values'?"),
        ({"parameters": {"a": {"type": "integer", "low": 4, "high": 4}}}, "not below high, 4"),
        ({"parameters": {"a": {"type": "integer", "low": 0.5, "high": 4}}}, "both integers"),
        ({"parameters": {"a": {"type": "continuous", "low": 0, "high": 4, "log": True}}}, "above 0"),
        ({"parameters": {"a": {"type": "continuous", "low": float("nan"), "high": 4}}}, "both numbers"),
        ({"parallel_config": {"tpp": 1}}, "did you mean 'tp'?"),
        ({"parallel_config": {"presets": ["balancd"]}}, "did you mean 'balanced'?"),
        ({"quant_config": {"presets": []}}, "name one of default, kv-cache-fp8"),
        ({"quant_config": {"presets": ["default"], "preset": "default"}}, "remove one"),
        ({"parameters": [1]}, "must have names with values"),
    ],
)
def test_what_cannot_be_meant_is_refused(task: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refused:
        read_space(task)
    assert said in str(refused.value)


def test_a_grid_has_every_integer_of_a_range() -> None:
    space = read_space({"parameters": {"a": {"type": "integer", "low": 1, "high": 3}, "b": [1, 2]}})
    assert len({tuple(one.values()) for one in space.grid()}) == space.size == 6
