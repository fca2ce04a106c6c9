import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from corral.api.requests.bodies import MAX_BODY_BYTES, InFlight, Intake
from corral.api.requests.reading import parse_json, read_body, read_query
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
