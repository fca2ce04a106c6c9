"""Predicts a value of a job, such as its run time, from the values of earlier jobs that were like it. Pure.

Only jobs of the same user count. The text of commands and names is the users' own: of each the first characters count,
and the values that are kept of a user are bounded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

from corral.core.model.jobs.job import JobSpec

VALUES_KEPT = 29
"""The number of values kept of each group. docs/research/prediction.md has the reasons for this and the next two."""

LEAST_VALUES = 9
"""With fewer values nothing is predicted: of eight equal jobs, the longest is exceeded by one in nine."""

UPPER_RANK = 0.92
"""The rank, of 1, of the value that nine of ten jobs do not exceed. Jobs change, so it is more than 0.9."""

GROUPS_KEPT = 128
"""The number of groups kept of each user; the group that got a value longest ago is dropped first."""

USERS_KEPT = 500
"""The number of users whose values are kept."""

MEMORY_HEADROOM = 1.2
"""A job like others is granted, or offered, this much more memory than the most that they used."""

AMOUNTS = ("gang_size", "devices", "share_milli", "split_milli")
"""The fields of a request that say how many GPUs a job has."""

_MOST_CHARACTERS = 256
_NUMBER = frozenset("0123456789.,:+-_eE")


class Alike(IntEnum):
    """How alike the jobs of a group are, the most alike first."""

    COMMAND = 0
    NAME = 1
    USER = 2


class JobGroup(NamedTuple):
    """A group of jobs of one user, by their name, their command without its numbers, and the GPUs that they ask for."""

    alike: Alike
    name: str = ""
    command: str = ""
    amounts: tuple[int | None, ...] = ()
    models: str = ""


class Prediction(NamedTuple):
    """A value of a job, predicted from the last `jobs` that were alike.

    `median` and `most` are theirs. Nine of ten jobs are expected not to exceed `p90`.
    """

    alike: Alike
    jobs: int
    median: float
    p90: float
    most: float


@dataclass(frozen=True, slots=True)
class PastValues:
    """The last values of one user's jobs, newest last, by group; the group with the newest value comes last."""

    of_groups: Mapping[JobGroup, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def plus(self, groups: Sequence[JobGroup], value: float) -> "PastValues":
        """These values with one more, of a job of these groups."""
        kept = dict(self.of_groups)
        for group in reversed(groups):
            kept[group] = (*kept.pop(group, ()), value)[-VALUES_KEPT:]
        for group in list(kept)[: max(0, len(kept) - GROUPS_KEPT)]:
            del kept[group]
        return PastValues(kept)

    def predict(self, groups: Sequence[JobGroup], *, least: int = LEAST_VALUES) -> Prediction | None:
        """The prediction from the first of these groups with at least `least` values; None if there is none."""
        for group in groups:
            values = self.of_groups.get(group, ())
            if len(values) >= least:
                return _predicted(group.alike, values)
        return None


PastOfUsers = Mapping[str, PastValues]
"""Past values by user; the user with the newest value comes last."""


def remember(past: dict[str, PastValues], user: str, groups: Sequence[JobGroup], value: float) -> None:
    """Add the value of one of the user's jobs to the past."""
    past[user] = past.pop(user, _NOTHING).plus(groups, value)
    while len(past) > USERS_KEPT:
        del past[next(iter(past))]


def groups_of(spec: JobSpec) -> tuple[JobGroup, ...]:
    """The groups of a job, the most alike first; the last one has all jobs of its user.

    Each submitted job has a name, if only that of its program. A job without one is like no other.
    """
    amounts = tuple(getattr(spec.request, name) for name in AMOUNTS)
    return groups_by(spec.name, spec.command, amounts, spec.request.models)


def program_among(groups: Sequence[JobGroup]) -> JobGroup | None:
    """Of the groups of a job, the one with all that runs the same command, whatever its name; None if there is none."""
    return next((one for one in groups if one.alike is Alike.COMMAND and not one.name), None)


def groups_by(
    name: str, command: Sequence[str], amounts: tuple[int | None, ...], models: Sequence[str]
) -> tuple[JobGroup, ...]:
    """The same by the parts of a job that tell them. `amounts` are those of its request that `AMOUNTS` names."""
    return _groups(name[:_MOST_CHARACTERS], _head(command), amounts, _head(models))


def _head(words: Sequence[str]) -> tuple[str, ...]:
    """The first of these words, which together have `_MOST_CHARACTERS` at most."""
    left, head = _MOST_CHARACTERS, []
    for word in words:
        head.append(word[:left])
        left -= len(word) + 1
        if left <= 0:
            break
    return tuple(head)


@lru_cache(maxsize=4096)
def _groups(
    name: str, words: tuple[str, ...], amounts: tuple[int | None, ...], models: tuple[str, ...]
) -> tuple[JobGroup, ...]:
    if not name:
        return (JobGroup(Alike.USER),)
    command, asked = " ".join(map(_without_number, words)), ",".join(models)
    return (
        JobGroup(Alike.COMMAND, name, command, amounts, asked),
        JobGroup(Alike.COMMAND, "", command, amounts, asked),  # Some names are never used again.
        JobGroup(Alike.NAME, name, "", amounts, asked),
        JobGroup(Alike.USER),
    )


def _without_number(word: str) -> str:
    """The word, with "#" for a number that it is or that follows "=": seeds and steps differ from job to job."""
    before, equals, value = word.rpartition("=")
    return f"{before}{equals}#" if _NUMBER.issuperset(value) and any(map(str.isdigit, value)) else word


@lru_cache(maxsize=4096)
def _predicted(alike: Alike, values: tuple[float, ...]) -> Prediction:
    in_order = sorted(values)
    rank = min(len(values), ceil(UPPER_RANK * (len(values) + 1)))
    return Prediction(alike, len(values), in_order[(len(values) - 1) // 2], in_order[rank - 1], in_order[-1])


_NOTHING = PastValues()
