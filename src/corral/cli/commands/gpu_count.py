"""The parser of the number of GPUs on a command line."""

from __future__ import annotations

from corral.core.model.errors import Refused
from corral.core.model.units import MILLI_PER_DEVICE, parse_share_milli

_MANY_DIGITS = 7


def number_of_gpus(text: str) -> int | str:
    """Whole GPUs as a number, a share as it was written. Raises ValueError unless it is a multiple of 0.01."""
    if text.isascii() and text.isdigit() and len(text) < _MANY_DIGITS:
        return int(text)  # without `fractions`, which takes longer to load than the rest of the reading
    try:
        milli = parse_share_milli(text)
    except Refused as refused:
        raise ValueError(str(refused).removeprefix("--gpus: ")) from None
    return milli // MILLI_PER_DEVICE if milli % MILLI_PER_DEVICE == 0 else text
