"""Write `shapes.py` from the rows of answers: `make declared`."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from corral.core.model import row_traits
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.job_details import Explanation, JobDetail
from corral.core.model.answers.jobs import JobRow
from corral.core.model.answers.site import NodeRow, QueueRow, ServerInfo
from corral.wire import key_of, to_plain

ROWS = (DeviceRow, Explanation, JobDetail, JobRow, NodeRow, QueueRow, ServerInfo)
"""The rows that commands in this package list. The rows inside them are included."""

PATH = Path(__file__).with_name("shapes.py")

_HEAD = '''"""Rows of answers that are read without their classes. By `make declared` from these: change those.

Of each class its traits, the fields that have a default, and those that are rows: of which class, and how many.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

'''


def source() -> str:
    """The expected text of the module `shapes`, before it is formatted."""
    shapes = {cls.__name__: _shape(cls) for cls in sorted(_with_those_below(ROWS), key=lambda cls: cls.__name__)}
    return f"{_HEAD}SHAPES: dict[str, tuple[str | None, dict[str, Any], dict[str, tuple[str, str]]]] = {shapes!r}\n"


def _with_those_below(rows: tuple[type, ...]) -> set[type]:
    found: set[type] = set()
    left = list(rows)
    while left:
        if (cls := left.pop()) not in found:
            found.add(cls)
            left += [of for _, of, _ in _rows_in(cls)]
    return found


def _shape(cls: Any) -> tuple[str | None, dict[str, Any], dict[str, tuple[str, str]]]:
    of = next((base.__name__ for base in cls.__mro__ if base.__module__ == row_traits.__name__), None)
    renamed = [one.name for one in dataclasses.fields(cls) if key_of(one.name) != one.name]
    if renamed:
        raise ValueError(f"{cls.__name__}: {renamed} have other names outside; read them with their class")
    return of, dict(_defaults_of(cls)), {name: (below.__name__, many) for name, below, many in _rows_in(cls)}


def _defaults_of(cls: Any) -> Iterator[tuple[str, Any]]:
    for one in dataclasses.fields(cls):
        if one.default is not dataclasses.MISSING:
            yield one.name, to_plain(one.default)
        elif one.default_factory is not dataclasses.MISSING:
            yield one.name, to_plain(one.default_factory(), compact=True)


def _rows_in(cls: Any) -> Iterator[tuple[str, type, str]]:
    """The fields that contain rows: their names, the rows' classes, and "one", "list" or "mapping"."""
    for name, hint in get_type_hints(cls).items():
        (kind, *_) = [one for one in get_args(hint) if one is not type(None)] if _is_optional(hint) else [hint]
        origin, inner = get_origin(kind), get_args(kind)
        many = {tuple: "list", Mapping: "mapping"}.get(origin, "one")
        row = {"list": inner[:1], "mapping": inner[1:], "one": (kind,)}[many]
        if dataclasses.is_dataclass(row[0]):
            assert isinstance(row[0], type)
            yield name, row[0], many


def _is_optional(hint: Any) -> bool:
    return type(None) in get_args(hint)


if __name__ == "__main__":
    PATH.write_text(source())
