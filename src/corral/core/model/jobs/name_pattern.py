"""Patterns of job names: one or several, separated by commas, each with * for any characters."""

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache

from corral.core.model.errors import Refused

WILD = frozenset("*?[")

MOST_PATTERNS = 100
"""The most patterns in one text."""

MOST_CHARACTERS = 2_000
"""The most characters of a text: each job's name is compared with all of it."""


def check_name_patterns(text: str) -> None:
    """Raise Refused for a text that would take long to compare with the names of many jobs."""
    if len(text) > MOST_CHARACTERS:
        raise Refused(f"name: it has {len(text):,} characters; at most {MOST_CHARACTERS:,} are allowed", field="name")
    count = text.count(",") + 1
    if count > MOST_PATTERNS:
        raise Refused(f"name: at most {MOST_PATTERNS} can be named, not {count}", field="name")


@lru_cache(maxsize=64)
def name_patterns(text: str) -> tuple[str, ...]:
    """The patterns in a text. The whole text is also one, because a name may contain a comma."""
    parts = [part.strip() for part in text.split(",")] if "," in text else []
    return tuple(dict.fromkeys([text, *(part for part in parts if part)]))


def fits(name: str, text: str) -> bool:
    """Whether a name matches the text: * is any characters, ? is one character, and [ab] is one of these."""
    return any(name == pattern or _matcher(pattern)(name) is not None for pattern in name_patterns(text))


def as_glob(pattern: str) -> str | None:
    """The pattern in the syntax of SQLite's GLOB, None if it is a plain name."""
    return None if WILD.isdisjoint(pattern) else pattern.replace("[!", "[^")


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    # `fnmatchcase` is avoided: it caches the last 32,768 patterns, with which a user could fill a gigabyte.
    return re.compile(translate(pattern)).match
