"""Updates of a submitted job: its priority, its time limit, its name and its queue may change."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, TypedDict, cast

from corral.core.model.field import Field
from corral.core.model.jobs.job import MAX_NAME_LENGTH, PRIORITY, TIME_LIMIT, JobSpec, Request
from corral.core.model.units import format_duration

NOTES_KEPT = 20
"""The most lines for the head of a job's log that its spec keeps when updates add some."""

_SHOWN_CHARACTERS = 40
"""The most characters of a name in a sentence, which is stored with each job of an array."""

_CHANGED = " changed "
_FIELD = re.compile(r"\bits (priority|time limit|name|queue) from ")


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """New values for a job, or for all elements of an array; None leaves a value as it is.

    Attributes:
        priority: a lower number runs first.
        time_limit_s: the job is ended after this time, counted from the start of each attempt.
    """

    priority: Annotated[int | None, PRIORITY] = None
    time_limit_s: Annotated[float | None, TIME_LIMIT] = None
    name: Annotated[str | None, Field(shortest=1, longest=MAX_NAME_LENGTH)] = None
    queue: Annotated[str | None, Field(shortest=1, longest=MAX_NAME_LENGTH)] = None


class SpecPatch(TypedDict, total=False):
    """New values for fields of a `JobSpec`. Do not write to a patch once it is in a fact."""

    priority: int
    time_limit_s: float | None
    name: str
    queue: str
    notes: tuple[str, ...]
    request: Request


def changes_of(spec: JobSpec, update: JobUpdate) -> SpecPatch:
    """The values of the update that differ from those of the spec."""
    asked = {"priority": update.priority, "time_limit_s": update.time_limit_s, "name": update.name}
    asked["queue"] = update.queue
    changed = {name: value for name, value in asked.items() if value is not None and value != getattr(spec, name)}
    return cast(SpecPatch, changed)


def values_before(spec: JobSpec, changes: SpecPatch) -> SpecPatch:
    """The present values of the fields to change, except for the notes."""
    return cast(SpecPatch, {name: getattr(spec, name) for name in changes if name != "notes"})


def with_changes(spec: JobSpec, changes: SpecPatch) -> JobSpec:
    """The spec with the new values."""
    return replace(spec, **changes)


def noted(spec: JobSpec, line: str) -> tuple[str, ...]:
    """The spec's notes with one more line at the end; of a long list only the newest lines are kept.

    An earlier line by the same user about the same fields is dropped: a user who changes a job a hundred times leaves
    few lines.
    """
    return _noted(spec.notes, line)


@lru_cache(maxsize=64)
def _noted(notes: tuple[str, ...], line: str) -> tuple[str, ...]:
    # Cached, so that all elements of an array share the same tuple.
    begins, changed, _ = line.partition(_CHANGED)
    fields = set(_FIELD.findall(line))
    kept = [one for one in notes if not (one.startswith(begins + changed) and fields.issuperset(_FIELD.findall(one)))]
    return (*kept, line)[-NOTES_KEPT:]


def may_start_later(before: SpecPatch, changes: SpecPatch) -> bool:
    """Whether these changes may delay a waiting job's start, so that a promise for it must be made anew."""
    if not {"queue", "name", "request"}.isdisjoint(changes):
        return True
    if "priority" in changes and changes["priority"] > before["priority"]:
        return True
    if "time_limit_s" not in changes:
        return False
    limit_s, before_s = changes["time_limit_s"], before["time_limit_s"]
    return before_s is not None and (limit_s is None or limit_s > before_s)


def sentence(before: SpecPatch, changes: SpecPatch, by: str) -> str:
    """The changes in a sentence: "alice changed its priority from 5 to 1 and its time limit from 1h to 30m"."""
    words = [
        f"its {called} from {shown(before.get(name))} to {shown(changes.get(name))}"
        for name, called, shown in (
            ("priority", "priority", str),
            ("time_limit_s", "time limit", _limit),
            ("name", "name", _clipped),
            ("queue", "queue", _clipped),
        )
        if name in changes
    ]
    *first, last = words
    return f"{by}{_CHANGED}{', '.join(first)}{' and ' if first else ''}{last}"


def _clipped(word: object) -> str:
    text = str(word)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def _limit(seconds: object) -> str:
    return format_duration(seconds) if isinstance(seconds, int | float) else "none"
