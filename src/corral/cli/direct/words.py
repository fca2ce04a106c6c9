"""Reads the words of a command line, where they are plain. What may be a mistake, or a short form, is left to typer."""

from __future__ import annotations

from corral.cli.direct.options import ARGUMENTS, COMMAND_FOLLOWS, DEFAULTS, OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_MOST_DIGITS = 15


def read(words: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """The command and its values by name, as typer gives them to it; None where typer is to read the words."""
    name = words[0] if words else ""
    if name not in OPTIONS:
        return None
    given: dict[str, Any] = {}
    rest: list[str] = []
    left = iter(words[1:])
    for word in left:
        if word == "--":
            if name in COMMAND_FOLLOWS:
                given["after_dashes"] = True
            rest += left
        elif word == "-" or not word.startswith("-"):
            rest.append(word)
            if name in COMMAND_FOLLOWS:
                rest += left
        elif not _take(word, left, OPTIONS[name], given):
            return None
    argument, how_many = ARGUMENTS[name]
    if not _suits(rest, how_many):
        return None
    if how_many != "none":
        given[argument] = rest[0] if how_many == "one" else rest or None
    return name, {**DEFAULTS[name], **given}


def _take(word: str, left: Any, options: dict[str, tuple[Any, ...]], given: dict[str, Any]) -> bool:
    """Put one option into `given`, with the next of the words that are `left` if it needs one."""
    spelled, equals, value = word.partition("=")
    name, kind, *bounds = options.get(spelled, ("", ""))
    if not name or (equals and (kind == "flag" or not spelled.startswith("--"))):
        return False
    if kind == "flag":
        given[name] = True
        return True
    if not equals:
        value = next(left, "-")
        if value.startswith("-"):  # typer knows whether that is a value
            return False
    if kind == "texts":
        given[name] = [*given.get(name, ()), value]
        return True
    read = value if kind == "text" else _number(value, kind, bounds)
    given[name] = read
    return read is not None


def _number(text: str, kind: str, bounds: list[int | None]) -> float | None:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        return None
    if kind == "number":
        return float(text)
    number = int(text)
    least, most = bounds or (None, None)
    return number if (least is None or least <= number) and (most is None or number <= most) else None


def _suits(rest: list[str], how_many: str) -> bool:
    if how_many == "none":
        return not rest
    return len(rest) == 1 if how_many == "one" else how_many == "any" or bool(rest)
