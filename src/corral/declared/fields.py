"""Reads the declarations of a class: the type of each field, and its `Annotated` metadata."""

import types
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from corral.core.model.field import Field

_SAYS_NOTHING = Field()

_UNITS = ("_s", "_mib", "_milli", "_c")
"""The suffixes of names that users leave out, because their values have units."""


class Declared(NamedTuple):
    """A field of a class.

    Attributes:
        kind: its type, without None and without annotations.
        said: its declaration.
        beside: its other annotations.
    """

    kind: Any
    said: Field
    beside: tuple[Any, ...]


def declarations(cls: type[Any]) -> Mapping[str, Declared]:
    """The fields of a dataclass by name, in its order."""
    return _declarations(cast(Hashable, cls))


@cache
def _declarations(cls: Any) -> Mapping[str, Declared]:
    hints = get_type_hints(cls, include_extras=True)
    return {one.name: _declared(hints[one.name]) for one in fields(cls)}


def _declared(hint: Any) -> Declared:
    beside: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *said = get_args(hint)
        beside = tuple(said)
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    said_of = next((one for one in beside if isinstance(one, Field)), _SAYS_NOTHING)
    return Declared(hint, said_of, tuple(one for one in beside if one is not said_of))


def default_of(cls: type[Any], name: str) -> Any:
    """The default value of a field. Raises LookupError for a field without a default."""
    one = next(one for one in fields(cls) if one.name == name)
    if one.default is not MISSING:
        return one.default
    if one.default_factory is MISSING:
        raise LookupError(f"{cls.__name__}.{name} has no default")
    return one.default_factory()


def without_unit(name: str) -> str:
    """The name of a field for users, if nothing else is declared."""
    return next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name)


def told_fields(row: type[Any]) -> tuple[str, ...]:
    """The names of the fields that events contain."""
    return tuple(name for name, declared in declarations(row).items() if declared.said.told)


def untold_values(row: type[Any]) -> Mapping[str, Any]:
    """The fields that events leave out, with their defaults."""
    return {name: default_of(row, name) for name, declared in declarations(row).items() if not declared.said.told}
