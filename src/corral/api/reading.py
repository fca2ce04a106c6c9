"""From the bytes of a request to a value of `corral.model` or `corral.api.shapes`, or to a refusal that says why."""

import json
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from corral import wire
from corral.api.bodies import Intake
from corral.api.nesting import refuse_unwieldy
from corral.model.errors import Refused, nearest

T = TypeVar("T")

_QUICK_BYTES = 128 * 1024
"""Up to so many are read in less time than a worker thread takes to begin, or not much more."""

_LARGE = CapacityLimiter(1)
"""The parser of JSON lets no other thread run: large bodies wait for each other, so that small ones need not."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_TRUTH = {"1": True, "true": True, "0": False, "false": False}


async def read_body(request: Request, cls: type[T]) -> T:
    """The value of class `cls` that the JSON body describes. Raises Refused."""
    intake: Intake = request.scope["state"]["intake"]
    raw = await intake.bytes_of(request)
    if len(raw) > _QUICK_BYTES:
        return await to_thread.run_sync(_read, raw, cls, limiter=_LARGE)
    return _read(raw, cls)


def _read(raw: bytes, cls: type[T]) -> T:
    return wire.from_plain(cls, parse_json(raw))


def parse_json(raw: bytes) -> Any:
    """Plain data of a JSON text (RFC 8259). Raises Refused, also for text that no file name or argument can hold."""
    refuse_unwieldy(raw)
    try:
        # Decoded here: the json module lets pass what is not quite UTF-8.
        data = json.loads(raw.decode() or "{}", parse_constant=_no_number)
    except ValueError as error:
        raise Refused(f"the body is not JSON: {error}") from None
    # Neither the ledger nor exec can take these. They come escaped only, so that few bodies need the closer look.
    if b"\\u" in raw:
        for field, text in _texts_in(data, ""):
            if "\0" in text:
                what = "a NUL character in it, which no command or file name can have"
            elif _SURROGATE.search(text):
                what = "half of a surrogate pair in it, which is not Unicode"
            else:
                continue
            raise Refused(f"{field or 'the body'}: {text!r:.80} has {what}", field=field or None)
    return data


def read_query(request: Request, cls: type[T]) -> T:
    """The value of class `cls` that the query string describes; a list is given as `a,b` or by repeating the key."""
    readers = _text_readers(cast(Any, cls))
    values: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name not in readers:
            raise Refused(f"{name} is not a known parameter; {nearest(name, readers)}", field=name)
        if not text:
            raise _empty(name, name)
        value = readers[name](text, name)
        values[name] = [*values.get(name, ()), *value] if isinstance(value, list) else value
    return wire.from_plain(cls, values)


def _texts_in(data: Any, field: str) -> Iterator[tuple[str, str]]:
    """Every text in plain data, with where it stands, as `wire` calls it; a key stands where its object does."""
    if isinstance(data, str):
        yield field, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield field, key
            yield from _texts_in(value, f"{field}.{key}" if field else key)
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _texts_in(item, f"{field}[{index}]")


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")


@cache
def _text_readers(cls: type[Any]) -> dict[str, Callable[[str, str], Any]]:
    hints = get_type_hints(cls)
    return {f.name: _text_reader(hints[f.name]) for f in fields(cls)}


def _text_reader(kind: Any) -> Callable[[str, str], Any]:
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (arg for arg in get_args(kind) if arg is not type(None))
    if get_origin(kind) is tuple:
        return _words
    if kind is bool:
        return _truth
    if kind is int:
        return _integer
    return lambda text, name: text


def _words(text: str, name: str) -> list[str]:
    words = text.split(",")
    if not all(words):
        raise _empty(f"a part of {name}", name)
    return words


def _empty(what: str, name: str) -> Refused:
    return Refused(f"{what} is empty; give it a value or leave it out", field=name)


def _truth(text: str, name: str) -> bool:
    if text.lower() not in _TRUTH:
        raise Refused(f"{name} must be 0 or 1, not {text!r:.40}", field=name)
    return _TRUTH[text.lower()]


def _integer(text: str, name: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit()) or len(text) > 18:
        raise Refused(f"{name} must be an integer, not {text!r:.40}", field=name)
    return int(text)
