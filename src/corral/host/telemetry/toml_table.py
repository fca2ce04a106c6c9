"""Reads TOML strictly: every value is checked, and every error names the line. `tomllib` does that for syntax only."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from corral.core.model.errors import Refused, nearest

T = TypeVar("T")
KeyPath = tuple[str | int, ...]
_STRING_OR_COMMENT = re.compile(r'"""(?:.|\n)*?"""|\'\'\'(?:.|\n)*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*')


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file and its text."""

    path: Path
    text: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a document; `at` is its path there, `title` its name in errors."""

    data: dict[str, Any]
    document: Document
    at: KeyPath = ()
    title: str = ""

    def refuse(self, key: str, reason: str) -> Refused:
        """Return the error that names the line of `key`, or the line where it should be, and the reason."""
        line = next((line for line in self._lines_near(key) if line), None)
        where = f"{self.document.path}, line {line}" if line else str(self.document.path)
        return Refused(f"{where}: {self.title}{': ' if self.title else ''}{reason}", field=key)

    def _lines_near(self, key: str) -> Iterator[int | None]:
        """Yield the line of `key`; then the line of its table, or of another key of the table."""
        text, data = self.document.text, self.document.data
        yield line_of(text, data, (*self.at, key))
        yield _header_of(text, data, self.at)
        for other in self.data:
            yield line_of(text, data, (*self.at, other))
        yield line_of(text, data, self.at)

    def expect_keys(self, known: Iterable[str]) -> None:
        """Raise Refused for the first unknown key, with the nearest known one."""
        known = frozenset(known)
        for key in self.data:
            if key not in known:
                raise self.refuse(key, f"{key} is not a known key; {nearest(key, known)}")

    def need(self, key: str, check: Callable[[Any], T], expected: str) -> T:
        """Return the checked value of `key`. `check` raises ValueError or Refused for a value that is not
        `expected`.
        """
        if key not in self.data:
            raise self.refuse(key, f"{key} is missing; it must be {expected}")
        value = self.data[key]
        try:
            return check(value)
        except (ValueError, Refused):
            raise self.refuse(key, f"{key} must be {expected}, not {value!r:.60}") from None

    def get(self, key: str, default: T, check: Callable[[Any], T], expected: str) -> T:
        """Return the checked value of `key` as `need` does, or `default` if the key is missing."""
        return self.need(key, check, expected) if key in self.data else default

    def tables(self, key: str) -> tuple["Table", ...]:
        """Return the tables in the list at `key`, () if it is missing."""
        rows: list[Any] = self.get(key, [], a_list, "a list of tables")
        for row in rows:
            if not isinstance(row, dict):
                raise self.refuse(key, f"{key} must be a list of tables, and {row!r:.60} is none")
        prefix = f"{self.title}." if self.title else ""
        return tuple(Table(row, self.document, (*self.at, key, i), f"{prefix}{key}[{i}]") for i, row in enumerate(rows))


def read_document(path: Path) -> Table:
    """Return the top table of a TOML file. Raises Refused if the file cannot be read or is no TOML."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"{path} is not TOML: {error}") from error
    return Table(data, Document(path, text, data))


def a_string(value: Any) -> str:
    """Return the value if it is a non-empty string. Raises ValueError."""
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def a_bool(value: Any) -> bool:
    """Return the value if it is true or false. Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError
    return value


def a_list(value: Any) -> list[Any]:
    """Return the value if it is a list. Raises ValueError."""
    if not isinstance(value, list):
        raise ValueError
    return value


def an_int(low: int, high: int) -> Callable[[Any], int]:
    """Return a check for an integer from `low` to `high`."""

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError
        return value

    return check


def line_of(text: str, data: dict[str, Any], at: KeyPath) -> int | None:
    """Return the line, from 1, of the key at `at` in `data`, which was parsed from `text`; None if it cannot be
    determined.

    The nth key of a name in document order is the nth place in the text that sets a key of that name.
    """
    while at and not isinstance(at[-1], str):
        at = at[:-1]
    same_name = [known for known in _keys(data, ()) if at and known[-1] == at[-1]]
    places = _places(text, str(at[-1])) if same_name else []
    if at not in same_name or not places:
        return None
    return places[min(same_name.index(at), len(places) - 1)]


def _header_of(text: str, data: dict[str, Any], at: KeyPath) -> int | None:
    """Return the line of the [[header]] that begins the table at `at`, None if it is no such table."""
    if len(at) < 2 or not isinstance(at[-1], int):
        return None
    name, tables = str(at[-2]), 0
    for known in _keys(data, ()):
        if known[-1] == name:
            value: Any = data
            for step in known:
                value = value[step]
            if known == at[:-1]:
                number = tables + at[-1]
            tables += len(value) if isinstance(value, list) else 0
    header = re.compile(rf"^[ \t]*\[\[[^\]\n]*(?<![\w-]){re.escape(name)}[ \t]*\]\]", re.MULTILINE)
    lines = [text.count("\n", 0, match.end()) + 1 for match in header.finditer(_without_strings(text))]
    return lines[number] if len(lines) == tables else None


def _keys(value: Any, at: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*at, key)
            yield from _keys(inner, (*at, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _keys(inner, (*at, i))


def _places(text: str, name: str) -> list[int]:
    blank = _without_strings(text)
    key = rf"(?<![\w-]){re.escape(name)}"
    setting = re.compile(rf"{key}(?=\s*=)|^[ \t]*\[[^\]\n]*{key}(?![\w-])", re.MULTILINE)
    return [blank.count("\n", 0, match.end()) + 1 for match in setting.finditer(blank)]


def _without_strings(text: str) -> str:
    """Return the text with strings and comments replaced by blanks; line numbers stay the same."""
    return _STRING_OR_COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
