"""The figures of a report as text: the name, value and unit of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from corral.core.model.units import format_duration, format_memory, format_share

Row = tuple[str, ...]
"""The name of a figure and its value, or its values in several columns."""

_SOON_S = 60.0


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < _SOON_S else format_duration(value)


def _moment(value: float) -> str:
    return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M} UTC"


_UNITS: Mapping[str, Callable[[Any], str]] = {
    "s": _seconds,
    "h": lambda value: f"{value:,} hours",
    "ms": lambda value: f"{value:.3g} ms",
    "pct": lambda value: f"{value:.2f} %",
    "mib": lambda value: format_memory(round(value)),
    "milli": lambda value: f"{format_share(value)} GPUs",
    "at": _moment,
}


def rows(report: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each figure. Groups with the same figures are shown side by side, below a row with their names."""
    alike = [key for key, value in report.items() if isinstance(value, Mapping) and _same(report, value)]
    for key, value in report.items():
        if key not in alike:
            yield from _rows_of(key, value)
        elif key == alike[0]:
            yield ("", *(_unit_of(name)[0] for name in alike))
            columns = [dict(_rows_of(name, report[name], within="")) for name in alike]
            for figure in dict.fromkeys(figure for column in columns for figure in column):
                yield (figure, *(column.get(figure, "-") for column in columns))


def text(report: Mapping[str, Any], width: int = 80) -> str:
    """The rows as a table in plain text; lists that are wider than that are wrapped."""
    found = list(rows(report))
    widths = [max((len(row[i]) for row in found if len(row) > i + 1), default=0) for i in range(max(map(len, found)))]
    lines: list[str] = []
    for name, *values in found:
        padded = [value.ljust(size) for value, size in zip(values, widths[1:], strict=False)]
        first, *more = _wrapped("  ".join(padded).rstrip(), width - widths[0] - 2)
        lines += [f"{name:{widths[0]}}  {first}".rstrip(), *(f"{'':{widths[0]}}  {line}" for line in more)]
    return "\n".join(lines) + "\n"


def _same(report: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
    """Return whether another group of the report has the same figures."""
    return sum(isinstance(value, Mapping) and value.keys() == group.keys() for value in report.values()) > 1


def _rows_of(key: str, value: Any, within: str | None = None) -> Iterator[tuple[str, str]]:
    """Return the rows of a figure or a group: each in its own unit if its name has one, else in the group's."""
    name, show = _unit_of(key)
    if not isinstance(value, Mapping):
        yield name, show(value)
        return
    for part, figure in value.items():
        if isinstance(figure, Mapping):
            yield from _rows_of(part, figure)
            continue
        inner, show_inner = _unit_of(part)
        shown = show(figure) if show_inner is _plain else show_inner(figure)
        yield (f"{name}, {inner}" if within is None else inner), shown


def _unit_of(key: str) -> tuple[str, Callable[[Any], str]]:
    """The key as words without its unit, and the function that formats a value in that unit."""
    words = key.split("_")
    unit = next((word for word in words[1:] if word in _UNITS), None)
    if unit is None or "per" in words:
        return " ".join(words), _plain
    show = _UNITS[unit]
    if unit != "at":
        words.remove(unit)
    return " ".join(words), lambda value: show(value) if isinstance(value, (int, float)) else _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}".removesuffix(".0")
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            return "none"
        return ", ".join(str(item) if isinstance(item, int) else _plain(item) for item in value)
    return str(value)


def _wrapped(line: str, width: int) -> list[str]:
    """Return the text in lines of at most `width` characters, broken after commas."""
    pieces = [""]
    for part in line.split(", ") if len(line) > width else [line]:
        joined = f"{pieces[-1]}, {part}" if pieces[-1] else part
        if len(joined) <= width or not pieces[-1]:
            pieces[-1] = joined
        else:
            pieces[-1] += ","
            pieces.append(part)
    return pieces
