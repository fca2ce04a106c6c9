"""Rows without their classes: what the classes make of the same answers."""

import dataclasses
import inspect
import json
import subprocess
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.cli.direct import derive
from corral.cli.direct.rows import row_of, rows_of
from corral.core.model import row_traits
from corral.core.model.answers.job_details import JobDetail
from corral.wire import from_answer, to_plain

OF_ANY_KIND = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)
INFERRED: Any = {one.name: ... for one in dataclasses.fields(JobDetail)}
DETAILS = st.builds(
    JobDetail,
    **INFERRED | {"spec": OF_ANY_KIND, "request": OF_ANY_KIND, "gpu_info": st.none() | OF_ANY_KIND},
)


def told(value: Any) -> Any:
    """All that there is to read of a row: fields, properties, and how it is written where it says that."""
    if isinstance(value, Mapping):
        return {key: told(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [told(one) for one in value]
    if not isinstance(value, SimpleNamespace) and not dataclasses.is_dataclass(value):
        return value
    fields = vars(value) if isinstance(value, SimpleNamespace) else [one.name for one in dataclasses.fields(value)]
    of = next((base for base in inspect.getmro(type(value)) if base.__module__ == row_traits.__name__), object)
    said = [name for name, one in vars(of).items() if isinstance(one, property)]
    text = str(value) if "__str__" in vars(of) and of is not object else None
    return {name: told(getattr(value, name)) for name in (*sorted(fields), *said)}, text


@pytest.mark.parametrize("cls", derive.ROWS, ids=lambda cls: cls.__name__)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_row_says_what_its_class_says_of_the_same_answer(cls: Any, data: st.DataObject) -> None:
    value = data.draw(DETAILS if cls is JobDetail else st.from_type(cls))
    answer = json.loads(json.dumps(to_plain(value, compact=data.draw(st.booleans()))))
    assert told(row_of(cls.__name__, answer)) == told(from_answer(cls, answer))


def test_what_an_older_server_does_not_tell_has_its_default() -> None:
    (bare,) = rows_of("JobDetail", [{"id": "17"}])
    assert told(bare) == told(JobDetail("17"))
    assert told(row_of("QueueRow", {"name": "day"}).quota)[0]["share_milli"] is None


def test_what_a_newer_server_tells_besides_is_no_reason_to_fail() -> None:
    assert row_of("NodeRow", {"name": "a", "shape": {"round": True}}).name == "a"


def test_the_shapes_are_those_of_the_classes() -> None:
    format_ = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(derive.PATH), "-"]
    made = subprocess.run(format_, input=derive.source(), capture_output=True, text=True, check=True)
    assert derive.PATH.read_text() == made.stdout, "a row was changed: `make declared` writes them down anew"
