"""Refuse JSON that would be too expensive to parse. It is checked before parsing, which cannot be interrupted in
Python.

An empty list takes three bytes of JSON and sixty bytes of memory. So the nesting depth, the number of lists and
objects, and the number of values are limited. The limits grow with the size of the text, because a large batch needs
many values.
"""

from typing import TYPE_CHECKING

from corral.api.answers.errors import TooLarge
from corral.core.model.errors import Refused

MAX_DEPTH = 32
_CONTAINERS, _BYTES_PER_CONTAINER = 200_000, 128
_VALUES, _BYTES_PER_VALUE = 400_000, 16

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def refuse_unwieldy(raw: bytes) -> None:
    """Raises Refused for a text that is nested too deeply, TooLarge for one with too many lists, objects or values.

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
