"""Rows of answers without the model's classes, which take longer to load than a table takes to print (decision 82).

A row has the fields and traits of its class in `core.model.answers`. Fields that the server does not send have the same
defaults. Enumerations stay text, which compares equal to them. `shapes` is derived from those classes.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

from corral.cli.direct.shapes import SHAPES
from corral.core.model import row_traits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def row_of(kind: str, answer: dict[str, Any]) -> Any:
    """The row in an answer, of the class named `kind`."""
    of, defaults, below = SHAPES[kind]
    fields = {**defaults, **answer}
    for name, (kind_below, many) in below.items():
        fields[name] = _below(kind_below, many, fields[name])
    return _class_with(of)(**fields)


def rows_of(kind: str, answers: Iterable[dict[str, Any]]) -> list[Any]:
    """A row for each answer."""
    return [row_of(kind, answer) for answer in answers]


def _below(kind: str, many: str, value: Any) -> Any:
    if value is None:
        return None
    if many == "list":
        return rows_of(kind, value)
    return {key: row_of(kind, one) for key, one in value.items()} if many == "mapping" else row_of(kind, value)


@cache
def _class_with(of: str | None) -> type[SimpleNamespace]:
    return SimpleNamespace if of is None else type(of, (getattr(row_traits, of), SimpleNamespace), {})
