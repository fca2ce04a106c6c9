from itertools import count

import pytest

from corral.client.submitting.options import RequestOptions
from corral.client.submitting.request import submission
from corral.client.submitting.sweep_values import params_of, sweep_of
from corral.core.model.errors import Refused
from corral.core.model.jobs.submission import ArraySpec
from corral.core.model.jobs.sweep import Sweep


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.1,0.01", ("0.1", "0.01")),
        (" a , b ", ("a", "b")),
        ("0..3", ("0", "1", "2", "3")),
        ("0..10..4", ("0", "4", "8")),
        ("-1..1", ("-1", "0", "1")),
        ("2..0", ("2", "1", "0")),
        ("7..7", ("7",)),
        ("0..1,5,8..9", ("0", "1", "5", "8", "9")),
        ("1e-4,nan", ("1e-4", "nan")),
        ("../a,b..c,..", ("../a", "b..c", "..")),
        ('"a,b","say ""x"""," c "', ("a,b", 'say "x"', " c ")),
        ('"0..4"', ("0..4",)),
        ('it"s', ('it"s',)),
    ],
)
def test_values_are_listed_with_commas_and_ranges_of_whole_numbers_include_both_ends(
    text: str, values: tuple[str, ...]
) -> None:
    assert params_of([f"x={text}"], field="--param") == {"x": values}
    sweep = sweep_of({"x": text}, zipped=False, limit=None)
    assert sweep is not None
    assert sweep.params == {"x": values}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("x", "has no values"),
        ("=1", "has no values"),
        ("x=", "empty value"),
        ("x=1,", "empty value"),
        ("x=1,,2", "empty value"),
        ('x=""', "empty value"),
        ('x="a', "quote"),
        ('x="a"b', "quote"),
        ("x=0..4..0", "step"),
        ("x=0..4..-1", "step"),
        ("x=0.1..0.5", "not a range"),
        ("x=01..10", "not a range"),
        ("x=0...4", "not a range"),
        ("x=0..10000", "10,001 values; at most 10,000 are allowed"),
        ("x=0..999999999999999", "1,000,000,000,000,000 values"),
        ("x=0..9998,a,b", "10,001 values"),
    ],
)
def test_what_cannot_be_read_as_values_is_refused_with_the_reason(given: str, wrong: str) -> None:
    with pytest.raises(Refused, match=wrong) as refused:
        params_of([given], field="--param")
    assert refused.value.field == "--param"


def test_a_name_that_is_given_again_has_more_values() -> None:
    assert params_of(["x=1", "y=a", "x=2,3"], field="--param") == {"x": ("1", "2", "3"), "y": ("a",)}


def test_values_in_python_are_taken_as_they_are() -> None:
    asked = submission(["true"], {"params": {"lr": [0.1, 1e-05], "seed": range(2), "text": ["a,b", "0..4"]}})
    assert asked.sweep == Sweep({"lr": ("0.1", "1e-05"), "seed": ("0", "1"), "text": ("a,b", "0..4")})
    with pytest.raises(Refused, match="has more values"):
        submission(["true"], {"params": {"n": count()}})


def test_the_jobs_that_may_run_at_once_are_said_for_an_array_as_for_a_sweep() -> None:
    swept = submission(["true"], {"params": {"seed": "0..3"}, "max_running": 2})
    assert swept.elements == ArraySpec((0, 1, 2, 3), 2)
    assert swept.array is None
    assert submission(["true"], {"array": "0-3", "max_running": 2}).array == ArraySpec((0, 1, 2, 3), 2)


@pytest.mark.parametrize(
    "options",
    [
        {"max_running": 2},
        {"max_running": 0, "array": "0-9"},
        {"max_running": 3, "array": "0-9%2"},
        {"zip": True},
        {"params": {"lr": "1"}, "env": {"lr": "2"}},
    ],
)
def test_options_of_arrays_and_sweeps_that_contradict_each_other_are_refused(options: RequestOptions) -> None:
    with pytest.raises(Refused):
        submission(["true"], options)
