"""Converts the times in an answer from the clock that the ledger keeps (it never jumps) to the wall clock."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from corral.clock import Clock

T = TypeVar("T")

NAMES = frozenset({"expected_start", "since", "until"})
"""Fields that hold a time, in addition to those whose names end in "_at"."""


def in_wall_time(answer: T, clock: Clock) -> T:
    """The answer (a row, or rows) with each time in it as the wall clock shows it."""
    now = clock.now()
    if clock.shown(now) == now:
        return answer
    return cast(T, _shown(answer, clock))


def _shown(value: Any, clock: Clock) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: _field(name, getattr(value, name), clock) for name in names})
    if isinstance(value, Mapping):
        return {name: _field(name, item, clock) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_shown(item, clock) for item in value)
    return value


def _field(name: str, value: Any, clock: Clock) -> Any:
    if type(value) in (int, float) and (name.endswith("_at") or name in NAMES):
        return clock.shown(value)
    return _shown(value, clock)
