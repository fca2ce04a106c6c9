"""Converts the model to plain data and back. No other module does this.

Plain data is what JSON can carry. Enumerations become their values, tuples become lists, dataclasses become objects
with the same field names. Requests are read strictly: an unknown field is Refused with the most similar known name.
Answers of a server are read leniently, because client and server may have different versions.
"""

import dataclasses
import types
from binascii import a2b_base64
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from corral.core.model.errors import Refused, nearest

T = TypeVar("T")
Plain = Any
Reader = Callable[[Any, str], Any]
Writer = Callable[[Any, bool], Plain]

MAX_INTEGER = 2**63 - 1
"""The largest integer that is read. Larger ones fit neither into the ledger nor, eventually, into a float."""

MAX_FLOAT = 1e300

_MISSING = object()
_SCALARS = frozenset({str, int, float, bool, type(None)})


def to_plain(value: Any, *, compact: bool = False) -> Plain:
    """The plain data of a model value. `compact` leaves out the fields that have their default value.

    A field with `left_out` in its metadata is left out at its default value in any case.
    """
    return _WRITERS[type(value)](value, compact)


class _Writers(dict[type, Writer]):
    """The writer of plain data for each class, made once: a fact has a dozen values of six classes."""

    def __missing__(self, kind: type) -> Writer:
        made = self[kind] = _writer(kind)
        return made


_WRITERS = _Writers()


def _writer(kind: type) -> Writer:
    if kind in _SCALARS:
        return lambda value, compact: value
    if issubclass(kind, Enum):
        return lambda value, compact: value.value
    if issubclass(kind, (tuple, list)):
        return lambda value, compact: [_WRITERS[type(item)](item, compact) for item in value]
    if issubclass(kind, Mapping):
        return lambda value, compact: {str(key): _WRITERS[type(item)](item, compact) for key, item in value.items()}
    return _dataclass_writer(_fields(cast(Hashable, kind)))


def _dataclass_writer(fields: tuple[tuple[str, str, Any, bool], ...]) -> Writer:
    def write(value: Any, compact: bool) -> Plain:
        plain = {}
        for name, key, default, optional in fields:
            item = getattr(value, name)
            # Most values are the default object itself, which saves the comparison, or are scalars, which need no call.
            if not ((compact or optional) and (item is default or item == default)):
                kind = type(item)
                plain[key] = item if kind in _SCALARS else _WRITERS[kind](item, compact)
        return plain

    return write


def from_plain(cls: type[T], data: Plain, *, field: str = "") -> T:
    """The model value of class `cls` that `data` describes. `field` is its name in an error.

    Raises Refused for unknown or missing fields and for values of the wrong type.
    """
    value: T = _reader(cast(Hashable, cls))(data, field)
    return value


def from_answer(cls: type[T], data: Plain) -> T:
    """The row of class `cls` (`corral.core.model.answers`) in an answer of a server, which may have another version.

    Unknown keys are ignored, missing ones get their defaults, and an unknown value of an enumeration stays text.
    """
    value: T = _answer_reader(cast(Hashable, cls))(data)
    return value


def bytes_in(text: str, most_bytes: int, *, field: str) -> bytes:
    """Return the bytes that were written as base64. Raises Refused, also for more than `most_bytes`."""
    try:
        # Text that is too long is not decoded.
        data = a2b_base64(text, strict_mode=True) if len(text) <= 4 * -(-most_bytes // 3) else None
    except ValueError:
        raise Refused(f"{field}: it is not base64", field=field) from None
    if data is None or len(data) > most_bytes:
        raise Refused(f"{field}: it has more than {most_bytes} bytes, the limit", field=field)
    return data


@cache
def _fields(cls: Hashable) -> tuple[tuple[str, str, Any, bool], ...]:
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"{cls!r} is no model value and has no plain form")
    return tuple(
        (f.name, key_of(f.name), _default(f), f.metadata.get("left_out", False)) for f in dataclasses.fields(cls)
    )


def key_of(name: str) -> str:
    """The name of a field outside the code. A Python keyword like `from` has an underscore added in the code."""
    return name.removesuffix("_")


def _default(f: "dataclasses.Field[Any]") -> Any:
    if f.default is not dataclasses.MISSING:
        return f.default
    return f.default_factory() if f.default_factory is not dataclasses.MISSING else _MISSING


@cache
def _field_readers(cls: Any) -> tuple[dict[str, Reader], frozenset[str]]:
    """The reader of each field, and the names of the required fields."""
    hints, fields = get_type_hints(cls), dataclasses.fields(cls)
    readers = {f.name: _reader(hints[f.name]) for f in fields}
    return readers, frozenset(f.name for f in fields if _default(f) is _MISSING)


@cache
def _reader(kind: Any) -> Reader:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda data, field: data
    if origin in (Union, types.UnionType):
        return _optional_reader(args)
    if origin is tuple:
        return _tuple_reader(args)
    if origin is not None:
        return _mapping_reader(args[1])
    if is_typeddict(kind):
        return _patch_reader(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(cast(type[Any], kind))
    if issubclass(kind, Enum):
        return _enum_reader(kind)
    if issubclass(kind, tuple):
        return _named_tuple_reader(kind)
    return _scalar_reader(kind)


def _named_tuple_reader(kind: Any) -> Reader:
    """A reader for a named tuple, which has the plain form of a tuple."""
    fields = _tuple_reader(tuple(get_type_hints(kind).values()))
    return lambda data, field: kind._make(fields(data, field))


def _optional_reader(args: tuple[Any, ...]) -> Reader:
    (inner,) = (_reader(arg) for arg in args if arg is not type(None))
    return lambda data, field: None if data is None else inner(data, field)


def _tuple_reader(args: tuple[Any, ...]) -> Reader:
    if args[-1] is Ellipsis:
        item = _reader(args[0])

        def read_many(data: Any, field: str) -> tuple[Any, ...]:
            _expect(isinstance(data, (list, tuple)), "a list", data, field)
            return tuple(item(entry, f"{field}[{i}]") for i, entry in enumerate(data))

        return read_many
    items = tuple(_reader(arg) for arg in args)

    def read_exactly(data: Any, field: str) -> tuple[Any, ...]:
        _expect(isinstance(data, (list, tuple)) and len(data) == len(items), f"a list of {len(items)}", data, field)
        return tuple(item(entry, f"{field}[{i}]") for i, (item, entry) in enumerate(zip(items, data, strict=True)))

    return read_exactly


def _mapping_reader(kind: Any) -> Reader:
    if kind not in (str, Any):
        return _mapping_of(_reader(kind))

    def read(data: Any, field: str) -> Any:
        _expect_object(data, field)
        if kind is str:
            for name, value in data.items():
                if type(value) is not str:
                    raise Refused(f"{field}.{name} must be a string, not {value!r:.80}", field=f"{field}.{name}")
        return data

    return read


def _mapping_of(item: Reader) -> Reader:
    def read(data: Any, field: str) -> Any:
        _expect_object(data, field)
        return {name: item(value, f"{field}.{name}") for name, value in data.items()}

    return read


def _patch_reader(cls: type[Any]) -> Reader:
    """A reader for a TypedDict without required fields."""
    readers = {name: _reader(hint) for name, hint in get_type_hints(cls).items()}

    def read(data: Any, field: str) -> Any:
        _expect_object(data, field)
        return _read_fields(data, readers, f"{field}.")

    return read


def _dataclass_reader(cls: type[Any]) -> Reader:
    def read(data: Any, field: str) -> Any:
        _expect_object(data, field)
        readers, required = _field_readers(cast(Hashable, cls))
        prefix = f"{field}." if field else ""
        if not required <= data.keys() and readers.keys() >= data.keys():
            name = next(name for name in readers if name in required and name not in data)
            raise Refused(f"{prefix}{name} is missing and has no default", field=f"{prefix}{name}")
        return cls(**_read_fields(data, readers, prefix))

    return read


def _read_fields(data: Mapping[str, Any], readers: Mapping[str, Reader], prefix: str) -> dict[str, Any]:
    if not data.keys() <= readers.keys():
        name = next(name for name in data if name not in readers)
        raise Refused(f"{prefix}{name} is not a known field; {nearest(name, readers)}", field=f"{prefix}{name}")
    return {name: readers[name](value, prefix + name) for name, value in data.items()}


def _enum_reader(kind: type[Enum]) -> Reader:
    values = {member.value: member for member in kind}

    def read(data: Any, field: str) -> Enum:
        if not isinstance(data, Hashable) or data not in values:
            raise Refused(f"{field}: {data!r:.80} is not allowed; {nearest(str(data), map(str, values))}", field=field)
        return values[data]

    return read


def _scalar_reader(kind: type[Any]) -> Reader:
    words = {str: "a string", bool: "true or false"}.get(kind, "")

    def read(data: Any, field: str) -> Any:
        if type(data) is not kind:
            _expect(False, words, data, field)
        return data

    return {int: _read_int, float: _read_float}.get(kind, read)


def _read_int(data: Any, field: str) -> int:
    _expect(type(data) is int, "an integer", data, field)
    if not -MAX_INTEGER <= data <= MAX_INTEGER:
        raise Refused(f"{field} must be from {-MAX_INTEGER} to {MAX_INTEGER}, not {data!r:.40}...", field=field)
    return cast(int, data)


def _read_float(data: Any, field: str) -> float:
    if type(data) is float and -MAX_FLOAT <= data <= MAX_FLOAT:
        return data
    _expect(type(data) in (int, float), "a number", data, field)
    if not -MAX_FLOAT <= data <= MAX_FLOAT:
        raise Refused(f"{field} must be a number of ordinary size, not {data!r:.40}", field=field)
    return float(data)


@cache
def _answer_reader(kind: Any) -> Callable[[Any], Any]:
    """The reader for answers; otherwise like `_reader`."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (_answer_reader(arg) for arg in args if arg is not type(None))
        return lambda data: None if data is None else inner(data)
    if origin is tuple:
        item = _answer_reader(args[0])
        return lambda data: tuple(map(item, data))
    if dataclasses.is_dataclass(kind):
        cls, hints = cast(type[Any], kind), get_type_hints(kind)
        fields = {f.name: _answer_reader(hints[f.name]) for f in dataclasses.fields(kind)}
        keys = {name: key_of(name) for name in fields}
        return lambda data: cls(**{name: read(data[keys[name]]) for name, read in fields.items() if keys[name] in data})
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of = _answer_reader(args[1])
        return lambda data: {key: of(value) for key, value in data.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {member.value: member for member in kind}
        return lambda data: members.get(data, data)
    return lambda data: data


def _expect_object(data: Any, field: str) -> None:
    # It is nearly always a dict, and that check takes a tenth of the time.
    if type(data) is not dict:
        _expect(isinstance(data, Mapping), "an object", data, field)


def _expect(holds: bool, expected: str, data: Any, field: str) -> None:
    if not holds:
        raise Refused(f"{field or 'the body'} must be {expected}, not {data!r:.80}", field=field or None)
