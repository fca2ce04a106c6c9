"""JSON however deep it is nested."""

import json
from typing import Any

import pytest

from corral.engines.kubernetes.cluster.json_text import MOST_DEPTH, read_json

DEPTH = 100_000


def test_a_value_is_read_as_it_is_written() -> None:
    value = {"a": [1, 2.5, None, True, 'quotes " and \\ and { brackets ]'], "ü": {}}
    assert read_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(("opened", "closed"), [('{"a":', "}"), ("[", "]")])
def test_what_is_nested_too_deep_is_left_out_and_all_else_is_there(opened: str, closed: str) -> None:
    deep = opened * DEPTH + "1" + closed * DEPTH
    text = rf'{{"before": "brackets [[{{ and \"quotes\\", "deep": {deep}, "after": [{deep}, "]", 7]}}'
    found = read_json(text.encode())
    assert found["before"] == 'brackets [[{ and "quotes\\'
    assert found["after"][1:] == ["]", 7]
    assert _depth(found["deep"]) == MOST_DEPTH - 1


@pytest.mark.parametrize("text", ["[" * DEPTH, "[" * DEPTH + '"', "[" * DEPTH + "]" * DEPTH + "1", "{", ""])
def test_what_is_no_json_is_refused_however_deep(text: str) -> None:
    with pytest.raises(ValueError):
        read_json(text.encode())


def _depth(value: Any) -> int:
    depth = 0
    while value is not None:
        value, depth = next(iter(value.values() if isinstance(value, dict) else value)), depth + 1
    return depth
