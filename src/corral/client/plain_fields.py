"""Makes fields of the model from options whose kind alone says how to read them."""

from collections.abc import Callable
from enum import StrEnum
from math import inf
from typing import Any, TypeVar, get_args

from corral.client.submitting.calling_process import checked_text
from corral.client.submitting.option_values import Given
from corral.core.model.errors import Refused, nearest
from corral.core.model.field import Kind
from corral.core.model.jobs.output import check_pattern
from corral.core.model.units import parse_memory_mib, parse_time_limit_s
from corral.declared.fields import default_of
from corral.declared.option_fields import OptionField, plain_options

N = TypeVar("N", int, float)


def plain_fields(cls: type[Any], given: Given, spell: Callable[[str], str]) -> dict[str, Any]:
    """The fields of a class from the given options. Raises Refused."""
    return {
        one.field: _READERS[one.kind](given[one.name], spell(one.name), one)
        for one in plain_options(cls)
        if one.name in given
    }


def at_least(least: N, value: N, field: str) -> N:
    """The number itself. Raises Refused for a smaller number."""
    if not value < inf:
        raise Refused(f"{field}: {value} is not a number; it must be at least {least}", field=field)
    if value < least:
        raise Refused(f"{field}: {value} is too small; it must be at least {least}", field=field)
    return value


def _whole(value: int, field: str, option: OptionField) -> int:
    # The server checks the other bounds.
    return (
        value if option.said.least is None or option.said.least < 0 else at_least(int(option.said.least), value, field)
    )


def _pattern(pattern: str, field: str, option: OptionField) -> str:
    check_pattern(pattern, field)
    return pattern


def _texts(value: tuple[str, ...], field: str, option: OptionField) -> tuple[Any, ...]:
    """The texts. For an enumeration, its members; one text may name several, separated by commas."""
    kind = get_args(option.type)[0] if option.kind is Kind.TEXTS else option.type
    if not issubclass(kind, StrEnum):
        return value
    known = {str(one): one for one in kind}
    words = [word.strip() for text in value for word in text.split(",")]
    for word in words:
        if word not in known:
            raise Refused(f"{field}: {word!r:.40} is not allowed; {nearest(word, known)}", field=field)
    return tuple(dict.fromkeys(known[word] for word in words))


def _text(value: str, field: str, option: OptionField) -> Any:
    if issubclass(option.type, StrEnum):
        return _texts((value,), field, option)[0]
    return checked_text(value or default_of(option.cls, option.field) or "", field)


def _time_limit(value: Any, field: str, option: OptionField) -> Any:
    return parse_time_limit_s(value, field=field) if isinstance(value, str) else value


_READERS: dict[Kind, Callable[[Any, str, OptionField], Any]] = {
    Kind.FLAG: lambda value, field, option: value,
    Kind.WHOLE: _whole,
    Kind.NUMBER: lambda value, field, option: value,
    Kind.TEXT: _text,
    Kind.TEXTS: _texts,
    Kind.TEXT_OR_NUMBER: _time_limit,
    Kind.MEMORY: lambda value, field, option: parse_memory_mib(value, field=field),
    Kind.PATH: _pattern,
}
