"""From the bytes of a request to a value of `corral.model` or `corral.api.shapes`, or to a refusal that says why."""

import json
import types
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from anyio import to_thread
from starlette.requests import ClientDisconnect, Request

from corral import wire
from corral.model.errors import Refused, nearest

T = TypeVar("T")

MAX_BODY_BYTES = 32 * 1024 * 1024
_QUICK_BYTES = 128 * 1024
"""Up to so many are read in less time than a worker thread takes to begin, or not much more."""

_TRUTH = {"1": True, "true": True, "0": False, "false": False}


async def read_body(request: Request, cls: type[T]) -> T:
    """The value of class `cls` that the JSON body describes. Raises Refused."""
    raw = await _bytes_of(request)
    if len(raw) > _QUICK_BYTES:
        return await to_thread.run_sync(_read, raw, cls)
    return _read(raw, cls)


def _read(raw: bytes, cls: type[T]) -> T:
    return wire.from_plain(cls, parse_json(raw))


def parse_json(raw: bytes) -> Any:
    """Plain data of a JSON text (RFC 8259). Raises Refused, also for text that no file name or argument can hold."""
    try:
        # Decoded here: the json module lets pass what is not quite UTF-8.
        data = json.loads(raw.decode() or "{}", parse_constant=_no_number)
    except RecursionError:
        raise Refused("the body is nested too deeply to be a request") from None
    except ValueError as error:
        raise Refused(f"the body is not JSON: {error}") from None
    # Neither the ledger nor exec can take these. They come escaped only, so that few bodies need the closer look.
    if b"\\u" in raw:
        for text in _texts_in(data):
            if "\0" in text:
                raise Refused(f"{text!r:.80} has a NUL character in it, which no command or file name can have")
            if any("\ud800" <= letter <= "\udfff" for letter in text):
                raise Refused(f"{text!r:.80} has half of a surrogate pair in it, which is not Unicode")
    return data


def read_query(request: Request, cls: type[T]) -> T:
    """The value of class `cls` that the query string describes; a list is given as `a,b` or by repeating the key."""
    readers = _text_readers(cast(Any, cls))
    values: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name not in readers:
            raise Refused(f"{name} is not a known parameter; {nearest(name, readers)}", field=name)
        value = readers[name](text, name)
        values[name] = [*values.get(name, ()), *value] if isinstance(value, list) else value
    return wire.from_plain(cls, values)


async def _bytes_of(request: Request) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                most = MAX_BODY_BYTES // 2**20
                raise Refused(f"the body is larger than {most} MiB; send less at once, such as a batch in parts")
            chunks.append(chunk)
    except ClientDisconnect:
        raise Refused("the body broke off before its end") from None
    return b"".join(chunks)


def _texts_in(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from _texts_in(value)
    elif isinstance(data, list):
        for item in data:
            yield from _texts_in(item)


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
        return lambda text, name: [word for word in text.split(",") if word]
    if kind is bool:
        return _truth
    if kind is int:
        return _integer
    return lambda text, name: text


def _truth(text: str, name: str) -> bool:
    if text.lower() not in _TRUTH:
        raise Refused(f"{name} must be 0 or 1, not {text!r:.40}", field=name)
    return _TRUTH[text.lower()]


def _integer(text: str, name: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit()) or len(text) > 18:
        raise Refused(f"{name} must be an integer, not {text!r:.40}", field=name)
    return int(text)
