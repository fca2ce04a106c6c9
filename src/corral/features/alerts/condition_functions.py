"""Converts conditions to functions of a subject's readings. An unknown reading makes a condition unknown, not false."""

from collections.abc import Callable, Iterator, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from corral.config.alert_condition import Comparison, Condition, Every

Readings = Mapping[str, float | str | None]
"""Series and labels of one subject by name. A value that is None or absent is unknown."""

Judge = Callable[[Readings], bool | None]

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": gt, ">=": ge, "<": lt, "<=": le, "==": eq, "!=": ne,
}  # fmt: skip


def judge_of(condition: Condition) -> Judge:
    """Return the function that tells whether the condition holds; None is unknown (Kleene's three-valued logic)."""
    if isinstance(condition, Comparison):
        return _of_comparison(condition)
    parts = tuple(judge_of(part) for part in condition.parts)
    return _with(parts, decides=False) if isinstance(condition, Every) else _with(parts, decides=True)


def reasons(condition: Condition, readings: Readings) -> Iterator[Comparison]:
    """Yield the comparisons that make a condition hold, in the order in which they are written."""
    if isinstance(condition, Comparison):
        yield condition
        return
    for part in condition.parts:
        if isinstance(condition, Every) or judge_of(part)(readings):
            yield from reasons(part, readings)


def _of_comparison(comparison: Comparison) -> Judge:
    name, operator, value = comparison.name, _OPERATORS[comparison.operator], comparison.value

    def judge(readings: Readings) -> bool | None:
        reading = readings.get(name)
        return None if reading is None else operator(reading, value)

    return judge


def _with(parts: tuple[Judge, ...], *, decides: bool) -> Judge:
    """Combine parts: the result is `decides` if any part is; otherwise unknown if any part is unknown."""

    def judge(readings: Readings) -> bool | None:
        known = True
        for part in parts:
            found = part(readings)
            if found is decides:
                return decides
            known = known and found is not None
        return not decides if known else None

    return judge
