"""Reads the declarations of a class: its fields by name, with what `Annotated` says of each."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_type_hints

from corral.model.field import Field

_SAYS_NOTHING = Field()


@cache
def declarations(cls: type[Any]) -> Mapping[str, Field]:
    """The declaration of each field of a dataclass, in the order of the class."""
    hints = get_type_hints(cls, include_extras=True)
    return {one.name: _declaration(hints[one.name]) for one in fields(cls)}


def _declaration(hint: Any) -> Field:
    said = (one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Field))
    return next(said, _SAYS_NOTHING)


def default_of(cls: type[Any], name: str) -> Any:
    """The value of a field that is not given. Raises LookupError for one that has to be."""
    one = next(one for one in fields(cls) if one.name == name)
    if one.default is not MISSING:
        return one.default
    if one.default_factory is MISSING:
        raise LookupError(f"{cls.__name__}.{name} has no default")
    return one.default_factory()
