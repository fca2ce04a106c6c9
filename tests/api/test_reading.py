import asyncio
import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.requests import Request

from corral.api.answers.errors import TooLarge
from corral.api.requests.bodies import MAX_BODY_BYTES, InFlight, Intake
from corral.api.requests.reading import MAX_DEPTH, parse_json, read_body, read_query, refuse_unwieldy
from corral.api.requests.shapes import JobsQuery, LogQuery, WaitFor
from corral.core.model.errors import Refused
from corral.core.model.jobs.phase import Phase


def refusal(raw: bytes) -> str:
    with pytest.raises(Refused) as refused:
        parse_json(raw)
    return str(refused.value)


def query(text: str, cls: type[Any] = JobsQuery) -> Any:
    return read_query(Request({"type": "http", "headers": [], "query_string": text.encode()}), cls)


def body(*chunks: bytes) -> Any:
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Any:
        return messages.pop(0)

    state = {"intake": Intake(InFlight(), "ann", MAX_BODY_BYTES)}
    return asyncio.run(read_body(Request({"type": "http", "headers": [], "state": state}, receive), WaitFor))


def test_a_body_that_comes_in_parts_is_put_together() -> None:
    assert body(b'{"ids": ["1"', b', "2"], "timeout_s": 3}') == WaitFor(("1", "2"), 3.0)


def test_a_body_with_an_unknown_field_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Refused, match="timeout is not a known field; did you mean 'timeout_s'"):
        body(b'{"ids": [], "timeout": 3}')


def test_an_empty_body_is_an_empty_object() -> None:
    assert parse_json(b"") == {}


@pytest.mark.parametrize(
    "raw", [b"{", b"{'a': 1}", b"\xff\xfe\x00", b'{"a": 1} x', b"nul", b"1" * 5000, b'"\xed\xa0\x80"']
)
def test_what_is_not_json_is_refused_saying_what_is_wrong_with_it(raw: bytes) -> None:
    assert refusal(raw).startswith("the body is not JSON: ")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused(word: str) -> None:
    assert f"{word} is not a number in JSON" in refusal(f'{{"timeout_s": {word}}}'.encode())


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, int("9" * 4000)])
def test_numbers_beyond_64_bits_are_refused_wherever_they_stand(number: int) -> None:
    said = refusal(f'{{"parameters": {{"p": [1, {number}]}}}}'.encode())
    assert said.startswith(f"parameters.p[1]: {number!s:.24}")
    assert "beyond 64 bits" in said


def test_numbers_of_64_bits_are_read() -> None:
    least, most = -(1 << 63), (1 << 63) - 1
    assert parse_json(f'[{least}, {most}, "{"9" * 30}", 1.{"0" * 30}]'.encode()) == [least, most, "9" * 30, 1.0]


def test_a_body_nested_without_end_is_refused() -> None:
    assert "nested too deeply" in refusal(b"[" * 200_000)


@pytest.mark.parametrize(("escape", "said"), [("\\u0000", "a NUL character"), ("\\ud83d", "half of a surrogate pair")])
@pytest.mark.parametrize(
    ("template", "field"),
    [
        ('{"command": ["a", "b%s"]}', "command[1]"),
        ('{"env": {"A": "%s"}}', "env.A"),
        ('{"env": {"A%s": "x"}}', "env"),
        ('{"workdir": "/%s"}', "workdir"),
        ('{"jobs": [{}, {"name": "%s"}]}', "jobs[1].name"),
        ('"%s"', None),
    ],
)
def test_what_no_command_or_file_name_can_hold_is_refused_with_its_field(
    escape: str, said: str, template: str, field: str | None
) -> None:
    with pytest.raises(Refused, match=said) as refused:
        parse_json((template % escape).encode())
    assert refused.value.field == field


def test_a_whole_surrogate_pair_is_a_letter() -> None:
    assert parse_json(b'{"name": "\\ud83d\\ude00"}') == {"name": "😀"}


def test_a_backslash_before_a_u_is_no_escape() -> None:
    assert parse_json(b'{"command": ["C:\\\\u0000"]}') == {"command": ["C:\\u0000"]}


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with suppress(Refused):
        parse_json(raw)


def test_without_a_query_everything_has_its_default() -> None:
    assert query("") == JobsQuery()


def test_a_query_is_read_by_the_types_of_its_shape() -> None:
    assert query("all=1&user=ann&limit=0&before=17") == JobsQuery(all=True, user=("ann",), limit=0, before=17)
    assert query("follow=true&offset=12", LogQuery) == LogQuery(follow=True, offset=12)


def test_a_list_is_given_with_commas_or_by_repeating_the_key() -> None:
    expected = JobsQuery(phase=(Phase.RUNNING, Phase.PENDING))
    assert query("phase=RUNNING,PENDING") == query("phase=RUNNING&phase=PENDING") == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limt=5", "limt is not a known parameter; did you mean 'limit'"),
        ("limit=ten", "limit must be an integer, not 'ten'"),
        ("limit=", "limit is empty; give a value or leave it out"),
        ("phase=", "phase is empty"),
        ("phase=RUNNING,", "a part of phase is empty"),
        ("user=", "user is empty"),
        ("limit=1e3", "limit must be an integer"),
        ("limit=²", "limit must be an integer"),
        ("before=" + "9" * 30, "before must be an integer"),
        ("all=yes", "all must be 0 or 1, not 'yes'"),
        ("phase=RUNING", "did you mean 'RUNNING'"),
    ],
)
def test_a_wrong_query_says_what_would_be_accepted(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        query(text)


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
