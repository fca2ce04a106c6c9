"""The limits of fields, as ranges for checks and as JSON Schema."""

from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, NamedTuple, cast, get_args, get_origin

from corral.core.model.errors import Refused
from corral.core.model.field import Field
from corral.declared.fields import Declared, declarations

_OF_NUMBERS = {"least": "minimum", "above": "exclusiveMinimum", "most": "maximum", "below": "exclusiveMaximum"}
_OF_TEXTS = {"shortest": "minLength", "longest": "maxLength"}
_OF_LISTS = {"shortest": "minItems", "longest": "maxItems"}


class Range(NamedTuple):
    """A range of whole numbers that includes both ends. `called` is the field's name in messages."""

    least: int
    most: int
    hint: str
    called: str


def ranges(cls: type[Any]) -> Mapping[str, Range]:
    """The ranges of a class's whole numbers that have a range, by field."""
    return _ranges(cast(Hashable, cls))


@cache
def _ranges(cls: Any) -> Mapping[str, Range]:
    return {
        name: Range(int(said.least), int(said.most), said.hint, said.called or name)
        for name, (kind, said, _) in declarations(cls).items()
        if kind is int and said.least is not None and said.most is not None
    }


def check_ranges(value: Any) -> None:
    """Raise Refused for a whole number that is out of its range."""
    for name, (least, most, hint, called) in ranges(type(value)).items():
        amount = getattr(value, name)
        if amount is not None and not least <= amount <= most:
            between(amount, least, most, called, hint)


def check_lengths(value: Any) -> None:
    """Raise Refused for a text or a list that is longer than its field allows.

    It is the last check of a value, because fields with a check of their own give better messages.
    """
    for name, longest in _lengths(cast(Hashable, type(value))).items():
        given = getattr(value, name)
        if given is not None and len(given) > longest:
            what = "characters" if isinstance(given, str) else "entries"
            raise Refused(f"{name}: it has {len(given):,} {what}; at most {longest:,} are allowed", field=name)


@cache
def _lengths(cls: Any) -> Mapping[str, int]:
    return {name: said.longest for name, (_, said, _) in declarations(cls).items() if said.longest is not None}


def between(value: int | None, least: int, most: int, field: str, hint: str = "") -> None:
    """Raise Refused for a number below `least` or above `most`. None passes."""
    if value is not None and not least <= value <= most:
        raise Refused(
            f"{field} must be from {least} to {most}, not {value}" + (f" ({hint})" if hint else ""), field=field
        )


def schema_limits(cls: type[Any]) -> Mapping[str, Mapping[str, Any]]:
    """The JSON Schema keywords for the limits of each field that has limits."""
    found = {name: _schema_limits(declared) for name, declared in declarations(cls).items()}
    return {name: limits for name, limits in found.items() if limits}


def _schema_limits(declared: Declared) -> dict[str, Any]:
    kind, said, _ = declared
    numbers = _words(said, _OF_NUMBERS)
    if get_origin(kind) is tuple:
        items = {"items": {"type": "integer", **numbers}} if numbers and get_args(kind)[0] is int else {}
        return {**_words(said, _OF_LISTS), **items}
    return {**numbers, **_words(said, _OF_TEXTS), **({"enum": list(said.among)} if said.among else {})}


def _words(said: Field, words: Mapping[str, str]) -> dict[str, Any]:
    return {word: value for name, word in words.items() if (value := getattr(said, name)) is not None}
