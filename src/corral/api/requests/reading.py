"""Read a request's body or query string strictly into a value of `core.model` or `api.requests.shapes`."""

import json
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from anyio import to_thread
from starlette.requests import HTTPConnection, Request

from corral import wire
from corral.api.answers.errors import TooLarge
from corral.api.requests.bodies import Intake
from corral.api.requests.gpu_number import with_gpus_read
from corral.api.requests.request_turns import UserTurns, whose_request
from corral.api.requests.shapes import JobBatch
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.submission import Submission

T = TypeVar("T")

_QUICK_BYTES = 32 * 1024
"""Bodies up to this size need no worker thread: they are parsed about as fast as a thread starts."""

_LARGE = UserTurns(1, of_a_user=1)
"""The turns of large bodies, of which one is parsed at a time: Python's JSON parser blocks all other threads."""

_LONG_NUMBER = re.compile(rb"\d{19}")
"""Digits that may be a number beyond 64 bits. Few bodies have such a number and need the exact check."""

_DECIMAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TRUTH = {"1": True, "true": True, "0": False, "false": False}


async def read_body(request: Request, cls: type[T]) -> T:
    """The value of class `cls` in the JSON body. Raises Refused."""
    return await _body(request, partial(_read, cls))


async def read_object(request: Request) -> Mapping[str, Any]:
    """The JSON object in the body, as it was sent. Raises Refused."""
    data = await _body(request, parse_json)
    if not isinstance(data, dict):
        raise Refused("the body must be a JSON object")
    return data


async def _body(request: Request, read: Callable[[bytes], T]) -> T:
    intake: Intake = request.scope["state"]["intake"]
    raw = await intake.bytes_of(request)
    if len(raw) > _QUICK_BYTES:
        async with _LARGE.turn(whose_request.get()):
            return await to_thread.run_sync(read, raw)
    return read(raw)


def _read(cls: type[T], raw: bytes) -> T:
    data = parse_json(raw)
    return wire.from_plain(cls, with_gpus_read(data) if cls in (Submission, JobBatch) else data)


def parse_json(raw: bytes) -> Any:
    """Plain data from JSON (RFC 8259). Raises Refused, also for text that no file name or argument can contain."""
    refuse_unwieldy(raw)
    try:
        # The text is decoded here because the json module accepts some invalid UTF-8.
        data = json.loads(raw.decode() or "{}", parse_constant=_no_number)
    except ValueError as error:
        raise Refused(f"the body is not JSON: {error}") from None
    # Neither the ledger nor exec can take these. They arrive only as escapes, so few bodies need the exact check.
    if b"\\u" in raw:
        for field, text in _texts_in(data, ""):
            if "\0" in text:
                what = "a NUL character, which no command or file name can contain"
            elif _SURROGATE.search(text):
                what = "half of a surrogate pair, which is not valid Unicode"
            else:
                continue
            raise Refused(f"{field or 'the body'}: {text!r:.80} contains {what}", field=field or None)
    if _LONG_NUMBER.search(raw):
        _refuse_huge(data, "")
    return data


def read_query(request: HTTPConnection, cls: type[T]) -> T:
    """The value of class `cls` in the query string. A list is `a,b`, or the key is repeated. Raises Refused."""
    readers = _text_readers(cast(Any, cls))
    names = {wire.key_of(f.name): f.name for f in fields(cast(Any, cls))}
    values: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name not in readers:
            raise Refused(f"{name} is not a known parameter; {nearest(name, readers)}", field=name)
        if not text:
            raise _empty(name, name)
        value = readers[name](text, name)
        known = names[name]
        values[known] = [*values.get(known, ()), *value] if isinstance(value, list) else value
    return wire.from_plain(cls, values)


def _texts_in(data: Any, field: str) -> Iterator[tuple[str, str]]:
    """Yield every text in plain data with its field, named as `wire` names it. A key has the field of its object."""
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


def _refuse_huge(data: Any, field: str) -> None:
    """Raise Refused for an integer beyond 64 bits: the ledger cannot store it, and it may not fit a float either."""
    if isinstance(data, dict):
        for key, value in data.items():
            _refuse_huge(value, f"{field}.{key}" if field else key)
    elif isinstance(data, list):
        for index, item in enumerate(data):
            _refuse_huge(item, f"{field}[{index}]")
    elif isinstance(data, int) and not -(1 << 63) <= data < 1 << 63:
        digits = f"{data!s:.24}{'...' if len(str(data)) > 24 else ''}"
        raise Refused(f"{field or 'the body'}: {digits} is beyond 64 bits; use a smaller number", field=field or None)


@cache
def _text_readers(cls: type[Any]) -> dict[str, Callable[[str, str], Any]]:
    hints = get_type_hints(cls)
    return {wire.key_of(f.name): _text_reader(hints[f.name]) for f in fields(cls)}


def _text_reader(kind: Any) -> Callable[[str, str], Any]:
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (arg for arg in get_args(kind) if arg is not type(None))
    if get_origin(kind) is tuple:
        return _words
    if kind is bool:
        return _truth
    if kind is int:
        return _integer
    if kind is float:
        return _number
    return lambda text, name: text


def _words(text: str, name: str) -> list[str]:
    words = text.split(",")
    if not all(words):
        raise _empty(f"a part of {name}", name)
    return words


def _empty(what: str, name: str) -> Refused:
    return Refused(f"{what} is empty; give a value or leave it out", field=name)


def _truth(text: str, name: str) -> bool:
    if text.lower() not in _TRUTH:
        raise Refused(f"{name} must be 0 or 1, not {text!r:.40}", field=name)
    return _TRUTH[text.lower()]


def _integer(text: str, name: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit()) or len(text) > 18:
        raise Refused(f"{name} must be an integer, not {text!r:.40}", field=name)
    return int(text)


def _number(text: str, name: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise Refused(f"{name} must be a number, not {text!r:.40}", field=name)
    return float(text)


# An empty list takes three bytes of JSON and sixty bytes of memory, and parsing cannot be interrupted in Python. So the
# depth, the lists and objects, and the values of a body are limited. A large batch needs many values.
MAX_DEPTH = 32
_CONTAINERS, _BYTES_PER_CONTAINER = 200_000, 128
_VALUES, _BYTES_PER_VALUE = 400_000, 16

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def refuse_unwieldy(raw: bytes) -> None:
    """Raise Refused for a text that is nested too deeply, TooLarge for a text with too many lists, objects or values.

    A quick count, which includes characters inside strings, is within the limits for nearly every body. Only other
    bodies are counted exactly, without their strings.
    """
    most_values = _VALUES + len(raw) // _BYTES_PER_VALUE
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH and (len(raw) <= most_values or raw.count(b",") <= most_values):
        return
    # numpy is loaded only in a server that needs it, because it takes memory and time.
    import numpy as np

    bare = _without_strings(raw)
    step_of = np.zeros(256, np.int8)
    step_of[list(b"[{")], step_of[list(b"]}")] = 1, -1
    steps = step_of[bare]
    depth = np.cumsum(steps[steps != 0], dtype=np.int32).max(initial=0)
    if depth > MAX_DEPTH:
        raise Refused(
            f"the body is nested too deeply: {depth:,} levels of lists and objects, and at most {MAX_DEPTH} are allowed"
        )
    containers, values = np.count_nonzero(steps > 0), np.count_nonzero(bare == ord(","))
    most_containers = _CONTAINERS + len(raw) // _BYTES_PER_CONTAINER
    if containers > most_containers:
        raise TooLarge(
            f"the body has {containers:,} lists and objects, and at most {most_containers:,} are allowed for its size"
        )
    if values > most_values:
        raise TooLarge(f"the body has over {values:,} values, and at most {most_values:,} are allowed for its size")


def _without_strings(raw: bytes) -> "NDArray[np.uint8]":
    """The bytes of the text outside strings. For an invalid text, those up to the mistake."""
    import numpy as np

    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    text = np.frombuffer(raw, np.uint8)
    inside: NDArray[np.bool_] = np.logical_xor.accumulate(text == ord('"'))
    return text[~inside]
