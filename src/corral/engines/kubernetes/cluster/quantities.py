"""Quantities as Kubernetes writes them: "250m", "1.5", "64Gi", "12e6", in exact integers."""

import re
from fractions import Fraction
from math import ceil

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_SUFFIXES = {
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate("mun", 1)},
    **{suffix: Fraction(10 ** (3 * power)) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}


class BadQuantity(ValueError):
    """The text is no quantity."""


def parse_quantity(text: object) -> Fraction:
    """Return the exact number of a quantity. Raises BadQuantity."""
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        if isinstance(text, int) and not isinstance(text, bool):
            return Fraction(text)
        raise BadQuantity(f"{text!r:.60} is no quantity")
    number = Fraction(match["number"])
    if match["exponent"]:
        return number * Fraction(10) ** int(match["exponent"])
    return number * _SUFFIXES[match["suffix"]] if match["suffix"] else number


def whole(text: object) -> int:
    """Return the number of a quantity, rounded up to a whole number as Kubernetes does. Raises BadQuantity."""
    # Nearly every pod has whole numbers, which need no fraction.
    if isinstance(text, str) and len(text) < 20 and text.isdecimal() and text.isascii():
        return int(text)
    return ceil(parse_quantity(text))


def milli(text: object) -> int:
    """Return the thousandths of a quantity, rounded up as Kubernetes does. Raises BadQuantity."""
    if isinstance(text, str) and len(text) < 20 and text.isascii():
        if text.isdecimal():
            return int(text) * 1000
        if text[-1:] == "m" and text[:-1].isdecimal():
            return int(text[:-1])
    return ceil(parse_quantity(text) * 1000)
