"""Conditions of alert rules are read, judged, and refused with the place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.config.alert_condition import SERIES, WORDS, SubjectKind, clearing_at, parse_when
from corral.core.model.errors import Refused
from corral.features.alerts.condition_functions import judge_of

HOT: dict[str, float | str | None] = {"temperature_c": 90.0, "utilization_pct": 10.0, "model": "H100"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("temperature_c > 85", True),
        ("temperature_c<=85", False),
        ("power_w > 300", None),
        ("temperature_c > 85 and model == 'H100'", True),
        ('temperature_c > 85 and model != "H100"', False),
        ("utilization_pct > 50 and power_w > 300", False),
        ("temperature_c > 85 or power_w > 300", True),
        ("utilization_pct > 50 or power_w > 300", None),
        ("temperature_c > 85 or utilization_pct > 50 and utilization_pct > 60", True),
        ("(temperature_c > 85 or utilization_pct > 50) and utilization_pct > 60", False),
        ("temperature_c > -5.5", True),
    ],
)
def test_a_condition_is_judged_and_unknown_where_it_depends_on_what_is_not_known(text: str, holds: bool | None) -> None:
    when = parse_when(text)
    assert when.kind is SubjectKind.DEVICE
    assert judge_of(when.condition)(HOT) is holds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("temprature_c > 85", "character 1: there is no series 'temprature_c'; did you mean 'temperature_c'?"),
        ("power_w > 300 and temprature_c > 85", "character 19: there is no series"),
        ("temperature_c > 85C", "character 17: '85C' cannot be read"),
        ("temperature_c > ", "compared with a number"),
        ("temperature_c 85", "character 15: one of > >= < <= == != is missing"),
        ("temperature_c > 85 power_w > 3", "character 20: 'power_w' does not belong here; write `and` or `or`"),
        (
            "temperature_c > 85 and waiting_s > 3",
            "waiting_s is of a job, and temperature_c of a device; make two rules",
        ),
        ("(temperature_c > 85", "a closing parenthesis is missing"),
        ("model > 'a' and temperature_c > 1", "model is no number; compare it with == or !="),
        ("model == 85", "compared with quoted text"),
        ("model == 'H100'", "compares no number"),
        ("", "a series is missing"),
        ("__import__('os').system('x') > 1", "character 17: "),
        ("(" * 30 + "temperature_c > 1" + ")" * 30, "more than 20 parentheses"),
        ("temperature_c > 1 and " * 40 + "temperature_c > 1", "at most 500 are allowed"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, why: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_when(text)
    assert why in str(refused.value)


@given(st.text(alphabet="temperature_c xid()<>=!'\"0.85 andor\n\x00é", max_size=60))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        when = parse_when(text)
    except Refused:
        return
    assert judge_of(when.condition)({}) is None


def test_a_lower_threshold_replaces_the_one_that_there_is() -> None:
    keeps = judge_of(clearing_at(parse_when("temperature_c > 85 and model == 'H100'"), 80))
    assert [keeps({**HOT, "temperature_c": degrees}) for degrees in (80.0, 80.5)] == [False, True]


@pytest.mark.parametrize(
    ("text", "clear", "why"),
    [
        ("temperature_c > 85", 90, "clear must be at most 85, the threshold, not 90"),
        ("disk_free_pct < 5", 4, "clear must be at least 5"),
        ("temperature_c > 85 and power_w > 300", 80, "has 2"),
        ("xid == 79", 80, "has none"),
    ],
)
def test_a_threshold_that_would_never_clear_is_refused(text: str, clear: float, why: str) -> None:
    with pytest.raises(Refused, match=why):
        clearing_at(parse_when(text), clear)


def test_each_series_is_of_one_kind() -> None:
    names = [name for names in SERIES.values() for name in names]
    assert len(set(names)) == len(names)
    assert not set(names) & {name for words in WORDS.values() for name in words}
