import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corral.api.answers.errors import TooLarge
from corral.api.requests.nesting import MAX_DEPTH, refuse_unwieldy
from corral.core.model.errors import Refused

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def depth_of(data: Any) -> int:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_as_much_nesting_as_is_allowed_passes_and_one_more_is_refused(brackets: str) -> None:
    opening, closing = (bracket.encode() for bracket in brackets)
    refuse_unwieldy(opening * MAX_DEPTH + closing * MAX_DEPTH)
    with pytest.raises(Refused, match=f"33 levels of lists and objects, and at most {MAX_DEPTH}"):
        refuse_unwieldy(opening * 33 + closing * 33)


@given(JSON, st.integers(0, 40), st.booleans())
@example("[" * 50 + '\\"' + "[" * 50, 31, True)
def test_just_what_is_too_deep_is_refused_whatever_its_strings_hold(inner: Any, around: int, ascii: bool) -> None:
    data = inner
    for _ in range(around):
        data = [data]
    raw = json.dumps(data, ensure_ascii=ascii).encode()
    if depth_of(data) > MAX_DEPTH:
        with pytest.raises(Refused, match="nested too deeply"):
            refuse_unwieldy(raw)
    else:
        refuse_unwieldy(raw)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    refuse_unwieldy(b"[" + b"[]," * 1000 + b"[]]")


def test_many_brackets_and_commas_in_one_string_are_one_value() -> None:
    refuse_unwieldy(json.dumps({"env": {"A": "[{," * 300_000}}).encode())


@pytest.mark.parametrize("item", [b"[]", b"{}", b'{"a":[]}'])
def test_more_lists_and_objects_than_any_request_has_are_not_parsed(item: bytes) -> None:
    with pytest.raises(TooLarge, match=r"[12],000,001 lists and objects"):
        refuse_unwieldy(b"[" + b",".join([item] * 1_000_000) + b"]")


@pytest.mark.parametrize("item", [b"1", b'"a"', b"null"])
def test_more_values_than_any_request_has_are_not_parsed(item: bytes) -> None:
    with pytest.raises(TooLarge, match="over 3,999,999 values"):
        refuse_unwieldy(b"[" + b",".join([item] * 4_000_000) + b"]")


def test_the_largest_batch_of_ordinary_jobs_passes() -> None:
    job = {"command": ["true"], "rlimits": [["NOFILE", 1024]] * 7, "request": {"models": ["A100"]}, "name": "a" * 20}
    refuse_unwieldy(json.dumps({"jobs": [job] * 10_000}).encode())


@pytest.mark.parametrize(
    "raw", [b'"' + b'\\"' * 10_000_000, b"[{" * 20 + b'""' * 10_000_000, b"\\" * 20_000_001 + b"[" * 33]
)
def test_what_was_made_to_be_slow_to_look_at_is_not(raw: bytes) -> None:
    began = time.thread_time()
    with suppress(Refused):
        refuse_unwieldy(raw)
    assert time.thread_time() - began < 5
