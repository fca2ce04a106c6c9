"""Reads the values of a sweep's parameters: "0.1,0.01", "0..4", "0..10..2"."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from corral.core.model.errors import Refused
from corral.core.model.jobs.sweep import Sweep

MAX_VALUES = 10_000
"""The most values of a parameter, which is also the most elements of an array."""

_VALUE = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",][^,]*)?)\s*(?:,|$)')
_RANGE = re.compile(r"(-?\d{1,15})\.\.(-?\d{1,15})(?:\.\.(-?\d{1,15}))?")
_LIKE_RANGE = re.compile(r"[-+]?[\d.]*\d\.\.\.?[-+]?[\d.]*\d(?:\.\.[-+]?[\d.]*\d)?")
_LEADING_ZERO = re.compile(r"-?0\d")

Values = str | float | Iterable[object]
"""The values of a parameter: text as on the command line, one number, or a list of values."""


def sweep_of(
    params: Mapping[str, Values] | None,
    *,
    zipped: bool,
    limit: int | None,
    field: str = "params",
    zip_field: str = "zip",
) -> Sweep | None:
    """The sweep over these parameters; None if there are none. The server checks names and the number of jobs.

    Raises Refused for values that cannot be read.
    """
    if not params:
        if zipped:
            raise Refused(
                f"{zip_field} pairs the values of parameters, but there are none; add {field}", field=zip_field
            )
        return None
    return Sweep({name: _values(name, given, field) for name, given in params.items()}, zipped, limit)


def params_of(given: Sequence[str], *, field: str) -> dict[str, tuple[str, ...]]:
    """The values by name from repeated flags NAME=VALUE,.. A repeated name adds values."""
    params: dict[str, tuple[str, ...]] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not (equals and name.strip()):
            raise Refused(f"{field}: {one!r:.60} has no values; write NAME=VALUE,.. such as lr=0.1,0.01", field=field)
        params[name.strip()] = (*params.get(name.strip(), ()), *_values(name.strip(), text, field))
    return params


def _values(name: str, given: Values, field: str) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(_read(name, given, field))
    if isinstance(given, bytes | bytearray | Mapping) or not isinstance(given, Iterable):
        return (_value(name, given, field),)
    values = tuple(_value(name, value, field) for value in islice(given, MAX_VALUES + 1))
    if len(values) > MAX_VALUES:
        raise _too_many(name, "more", field)
    return values


def _value(name: str, value: object, field: str) -> str:
    """A value as text. Raises Refused for a value without a useful text form."""
    if value is None or isinstance(value, bytes | bytearray | Mapping | list | tuple | set | frozenset):
        raise Refused(
            f"{field}: {name}: {value!r:.60} is of type {type(value).__name__}, and must be text or a number; "
            f"write values such as {{{name!r}: [0.1, 0.01]}}",
            field=field,
        )
    return str(value)


def _read(name: str, text: str, field: str) -> Iterator[str]:
    """Each value of a list with commas. A value in double quotes stays as it is, with "" for a quote in it."""
    at, count = 0, 0
    while at <= len(text):
        found = _VALUE.match(text, at)
        if found is None:
            raise Refused(f"{field}: {name}: a quote is missing or misplaced in {text[at:]!r:.60}", field=field)
        quoted, plain = found[1], (found[2] or "").strip()
        one: Sequence[str] = [quoted.replace('""', '"')] if quoted is not None else _spread(name, plain, field)
        if not one[0]:
            raise Refused(f"{field}: {name} has an empty value in {text!r:.60}; remove it", field=field)
        count += len(one)
        if count > MAX_VALUES:
            raise _too_many(name, f"{count:,}", field)
        yield from one
        if not found[0].endswith(","):
            return
        at = found.end()


def _spread(name: str, plain: str, field: str) -> Sequence[str]:
    """The numbers of a range, both ends included, up or down. Any other text is a single value."""
    match = _RANGE.fullmatch(plain)
    if match is None or any(part and _LEADING_ZERO.match(part) for part in match.groups()):
        if _LIKE_RANGE.fullmatch(plain):
            raise Refused(
                f"{field}: {name}: {plain} is not a range; ranges are of whole numbers without leading zeros, such as "
                f'0..4 or 0..10..2; list other values with commas (or write "{plain}", if that is the value)',
                field=field,
            )
        return [plain]
    first, last = int(match[1]), int(match[2])
    step = int(match[3] or 1)
    if step < 1:
        raise Refused(f"{field}: {name}: the step of {plain} must be 1 or more", field=field)
    size = abs(last - first) // step + 1
    if size > MAX_VALUES:
        raise _too_many(name, f"{size:,}", field)
    up = last >= first
    return [str(number) for number in range(first, last + (1 if up else -1), step if up else -step)]


def _too_many(name: str, count: str, field: str) -> Refused:
    return Refused(f"{field}: {name} has {count} values; at most {MAX_VALUES:,} are allowed", field=field)
