"""Submissions without the model: the same as with it."""

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.client.submitting.options import RequestOptions
from corral.client.submitting.plain_submission import PLAIN_OPTIONS, plain_submission
from corral.client.submitting.request import submission
from corral.core.model.errors import Refused
from corral.wire import to_plain

WORD = st.text(st.characters(codec="utf-8"), max_size=5)

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "array": st.sampled_from(["0-3", "0-9%2", "7", "5,1-3:2", "0-3%0", "3-1", "", "0-10000"]),
        "env": st.dictionaries(WORD, WORD, max_size=2),
        "force": st.just(True),
        "gpus": st.integers(0, 99),
        "hold": st.just(True),
        "name": WORD,
        "priority": st.integers(0, 99),
        "project": WORD,
        "queue": WORD,
        "time": st.sampled_from(["2h", "90s", "1d12h", "90", "0s", "soon"]),
        "workdir": WORD,
    },
)


@pytest.mark.parametrize(
    "options",
    [{"gpus": "0.5"}, {"gpus": -1}, {"gpus": 10**20}, {"priority": -1}, {"priority": 10**20}],
)
def test_numbers_that_few_give_are_left_to_the_model(options: RequestOptions) -> None:
    assert plain_submission(["true"], options) is None


def made_with_the_model(command: list[str], options: RequestOptions) -> Any:
    try:
        return to_plain(submission(command, options), compact=True)
    except Refused:
        return None


@settings(max_examples=25, deadline=None)
@given(st.lists(WORD, max_size=3), OPTIONS)
def test_it_is_what_the_model_makes_of_the_same_and_what_makes_no_sense_is_left_to_it(
    command: list[str], options: RequestOptions
) -> None:
    assert plain_submission(command, options) == made_with_the_model(command, options)


def test_the_directory_the_mask_and_the_limits_of_the_caller_go_along(tmp_path: Any) -> None:
    options: RequestOptions = {"workdir": tmp_path.as_posix()}
    before = os.umask(0o027)
    try:
        plain = plain_submission(["true"], options)
    finally:
        os.umask(before)
    assert plain is not None
    assert (plain["workdir"], plain["umask"]) == (str(tmp_path), 0o027)


@pytest.mark.parametrize("option", sorted(set(RequestOptions.__annotations__) - PLAIN_OPTIONS))
def test_an_option_that_needs_the_model_is_left_to_it(option: str) -> None:
    assert plain_submission(["true"], {option: "x"}) is None
