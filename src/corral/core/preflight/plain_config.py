"""Reads values from a parsed `config.json`, which may hold anything."""

from collections.abc import Mapping
from typing import Any

PlainConfig = Mapping[str, Any]

_LARGEST = 10**9
"""The largest number that is accepted in a config; larger ones are not real, and would overflow."""
_LONGEST = 10_000
"""The longest list that is read."""


def number_in(config: PlainConfig, *names: str) -> int | None:
    """The first of these entries that is a whole number above 0, None if none is."""
    found = (value for name in names if type(value := config.get(name)) is int)
    return next((value for value in found if 0 < value <= _LARGEST), None)


def numbers_in(config: PlainConfig, name: str, *, zero: bool = False) -> list[int] | None:
    """The entry of this name if it is a list of whole numbers, None otherwise; of numbers above 0 unless `zero`."""
    value, least = config.get(name), 0 if zero else 1
    if not isinstance(value, list) or len(value) > _LONGEST:
        return None
    return value if all(type(one) is int and least <= one <= _LARGEST for one in value) else None


def text_in(config: PlainConfig, *names: str) -> str | None:
    """The first of these entries that is a text, None if none is."""
    return next((value for name in names if isinstance(value := config.get(name), str)), None)
