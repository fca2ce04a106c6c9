"""Converts the times of questions and answers between the ledger's clock, which never jumps, and the wall clock."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from corral.clock import Clock
from corral.core.model.errors import Refused

T = TypeVar("T")

DEFAULT_PERIOD_S = 7 * 24 * 3600.0

NAMES = frozenset({"expected_start", "since", "until"})
"""Fields that hold a time, in addition to those whose names end in "_at"."""


def in_wall_time(answer: T, clock: Clock) -> T:
    """Return the answer (a row, or rows) with its times by the wall clock."""
    now = clock.now()
    if clock.shown(now) == now:
        return answer
    return cast(T, _shown(answer, clock))


def period_of(clock: Clock, since: float | None, until: float | None) -> tuple[float, float]:
    """Return a period by the ledger's clock, from a caller's times by the wall clock.

    The default is the week until now. Raises Refused for a period that ends before it begins.
    """
    now = clock.now()
    end = now if until is None else min(clock.taken(until), now)
    begin = end - DEFAULT_PERIOD_S if since is None else clock.taken(since)
    if begin >= end:
        raise Refused(
            f"since: the period from {begin:.0f} to {end:.0f} is empty; "
            "give a time (Unix seconds) before now and before `until`",
            field="since",
        )
    return begin, end


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
