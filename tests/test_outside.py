"""The comparison of two checkouts shows each difference, and none of what varies by itself."""

import json

from bench.inside import plans
from bench.outside import commands_in, steady, values_of, written


def lines(first: str, again: str, other: str) -> tuple[list[str], list[str]]:
    """What is compared of the old answer and of the new one."""
    seen, repeated, new = ({"ps": values_of(each)} for each in (first, again, other))
    known = steady(seen, repeated)
    return written(known, known), written(new, known)


def test_moments_and_what_varies_are_left_out_of_an_answer_and_all_else_is_compared() -> None:
    first, again, other = (
        json.dumps({"at": at, "pid": pid, "gpus": [1, gpus]})
        for at, pid, gpus in ((1.79e9, 17, 2), (1.8e9, 18, 2), (1.81e9, 19, 3))
    )
    old, new = lines(first, again, first)
    assert old == new
    old, new = lines(first, again, other)
    assert set(new) - set(old) == {"/gpus/1 = 3"}


def test_a_wait_that_is_recorded_now_and_then_is_left_out() -> None:
    brief = json.dumps({"waited": [{"reason": "Unrecorded", "seconds": 0.01}]})
    assert values_of(brief) == values_of('{"waited": []}') == {"/waited": "[]"}
    assert values_of("a\nwaited Unrecorded <1s\nb") == values_of("a\nb")


def test_an_answer_whose_form_varies_is_left_out() -> None:
    assert lines("[1]", "[1, 2]", "[1, 2, 3]") == (["-- ps"], ["-- ps"])


def test_text_is_compared_without_numbers_durations_and_the_width_of_columns() -> None:
    old, new = lines("1  train   waits 1m 5s", "1  train   waits 1m 5s", "12 train  waits 59s")
    assert old == new
    old, new = lines("waits", "waits", "runs")
    assert old != new


def test_commands_are_found_in_the_help_of_those_above_them() -> None:
    said = (
        "Usage: x\n\nOptions:\n  -h  Help.\n\nLook:\n  ps   List.\n  alloc-map\n        Long.\n\n  Example:\n    x ps\n"
    )
    assert list(commands_in(said)) == ["ps", "alloc-map"]


def test_a_drawn_site_has_the_same_plans_whenever_it_is_drawn() -> None:
    assert list(plans(2)) == list(plans(2)) != []
