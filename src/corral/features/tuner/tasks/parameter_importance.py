"""Computes how much each parameter explains of the experiments' scores. Pure; it needs no numpy.

The experiments are ranked by score, so that an extreme score counts no more than any other worst one. The importance of
a parameter is the part of the ranks' variance between the groups of its values: epsilon squared of a one-way analysis
of variance (Kelley 1935), at least 0:

    (between - (groups - 1) x within / (n - groups)) / total

A parameter without effect has 0 in expectation, even if each value was tried only a few times. Joint effects of several
parameters are not included, so the sum of all need not be 1.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from corral.features.tuner.finding_answers import ParameterImportance

MOST_GROUPS = 8
"""A parameter with more numbers is divided into this many groups of adjacent values, of about the same size."""


def importances(measured: Sequence[tuple[Mapping[str, Any], float]]) -> tuple[ParameterImportance, ...]:
    """Return the importance of each parameter with several values in `measured` (parameters, score), largest first."""
    names = dict.fromkeys(name for parameters, _ in measured for name in parameters)
    ranks = _ranks([score for _, score in measured])
    found = [_importance(name, [parameters.get(name) for parameters, _ in measured], ranks) for name in names]
    several = [one for one in found if one.values > 1]
    return tuple(sorted(several, key=lambda one: (-(-1.0 if one.part is None else one.part), one.name)))


def _importance(name: str, values: Sequence[Any], ranks: Sequence[float]) -> ParameterImportance:
    groups = _groups(values)
    by_group: dict[Hashable, list[float]] = {}
    for group, rank in zip(groups, ranks, strict=True):
        by_group.setdefault(group, []).append(rank)
    return ParameterImportance(name, len({_key(value) for value in values}), _epsilon_squared(list(by_group.values())))


def _epsilon_squared(groups: Sequence[Sequence[float]]) -> float | None:
    """Return epsilon squared, None if every group has one member, or all ranks are equal."""
    count = sum(map(len, groups))
    mean = sum(map(sum, groups)) / max(count, 1)
    total = sum((rank - mean) ** 2 for group in groups for rank in group)
    between = sum(len(group) * (sum(group) / len(group) - mean) ** 2 for group in groups)
    if len(groups) < 2 or count <= len(groups) or total <= 0:
        return None
    within = (total - between) / (count - len(groups))
    return min(1.0, max(0.0, (between - (len(groups) - 1) * within) / total))


def _ranks(scores: Sequence[float]) -> list[float]:
    """Return the ranks from 0; equal scores get the mean of their ranks."""
    order = sorted(range(len(scores)), key=scores.__getitem__)
    ranks = [0.0] * len(scores)
    first = 0
    while first < len(order):
        end = first
        while end < len(order) and scores[order[end]] == scores[order[first]]:
            end += 1
        for index in order[first:end]:
            ranks[index] = (first + end - 1) / 2
        first = end
    return ranks


def _groups(values: Sequence[Any]) -> list[Hashable]:
    distinct = {_key(value) for value in values}
    numbers = all(type(value) in (int, float) for value in values)
    if not numbers or len(distinct) <= MOST_GROUPS:
        return [_key(value) for value in values]
    at = {value: index for index, value in enumerate(sorted(set(values)))}
    return [MOST_GROUPS * at[value] // len(at) for value in values]


def _key(value: Any) -> Hashable:
    """Return a key for grouping. 1 and true are equal but differ in meaning; values that cannot be hashed count by
    their text.
    """
    return (type(value).__name__, value if isinstance(value, Hashable) else repr(value))
