"""What a JSON text would cost to parse, told from its bytes alone: the parser neither stops midway nor lets others run.

A list of nothing takes three bytes of JSON and sixty of memory. So there are bounds on how deep lists and objects are
nested, on how many there are, and on how many values; they grow with the text, for a large batch has many.
"""

from typing import TYPE_CHECKING

from corral.api.errors import TooLarge
from corral.model.errors import Refused

MAX_DEPTH = 32
_CONTAINERS, _BYTES_PER_CONTAINER = 200_000, 128
_VALUES, _BYTES_PER_VALUE = 400_000, 16

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def refuse_unwieldy(raw: bytes) -> None:
    """Raises Refused for a text that is nested too deeply, TooLarge for one of too many lists, objects or values.

    Nearly every body is cleared by counting, for what stands in strings is counted too; only the others are looked at
    without their strings.
    """
    most_values = _VALUES + len(raw) // _BYTES_PER_VALUE
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH and (len(raw) <= most_values or raw.count(b",") <= most_values):
        return
    # Its memory and time to load are for servers that need it.
    import numpy as np

    bare = _without_strings(raw)
    step_of = np.zeros(256, np.int8)
    step_of[list(b"[{")], step_of[list(b"]}")] = 1, -1
    steps = step_of[bare]
    depth = np.cumsum(steps[steps != 0], dtype=np.int32).max(initial=0)
    if depth > MAX_DEPTH:
        raise Refused(
            f"the body is nested too deeply: {depth:,} lists and objects in each other, and {MAX_DEPTH} are allowed"
        )
    containers, values = np.count_nonzero(steps > 0), np.count_nonzero(bare == ord(","))
    most_containers = _CONTAINERS + len(raw) // _BYTES_PER_CONTAINER
    if containers > most_containers:
        raise TooLarge(f"the body has {containers:,} lists and objects, and at most {most_containers:,} are read")
    if values > most_values:
        raise TooLarge(f"the body has over {values:,} values, and at most {most_values:,} are read")


def _without_strings(raw: bytes) -> "NDArray[np.uint8]":
    """The bytes of the text that stand in no string; of one that is no JSON, those up to where it is none."""
    import numpy as np

    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    text = np.frombuffer(raw, np.uint8)
    inside: NDArray[np.bool_] = np.logical_xor.accumulate(text == ord('"'))
    return text[~inside]
