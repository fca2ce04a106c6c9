"""How much each parameter says of how good an experiment was. Pure; a plain formula, so that it needs no numpy.

The experiments are ranked by their score, so that one that was far off counts no more than any other that was worst.
Of the variance of the ranks, the part that lies between the values of a parameter is what it says alone: epsilon
squared of a one-way analysis of variance (Kelley 1935), at least 0:

    (between - (groups - 1) x within / (n - groups)) / total

For a parameter that does nothing it is 0 in expectation, also where each value was tried only a few times. What
parameters do only together is in none of them, so the parts of all need not come to 1.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from corral.core.model.answers.tuning_findings import ParameterImportance

MOST_GROUPS = 8
"""Numbers with more values than this are put together, neighbours first, in groups of about the same size."""


def importances(measured: Sequence[tuple[Mapping[str, Any], float]]) -> tuple[ParameterImportance, ...]:
    """Of each parameter with several values in `measured` (parameters, score), the most important first."""
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
    """None where every group has one member, or nothing differs."""
    count = sum(map(len, groups))
    mean = sum(map(sum, groups)) / max(count, 1)
    total = sum((rank - mean) ** 2 for group in groups for rank in group)
    between = sum(len(group) * (sum(group) / len(group) - mean) ** 2 for group in groups)
    if len(groups) < 2 or count <= len(groups) or total <= 0:
        return None
    within = (total - between) / (count - len(groups))
    return min(1.0, max(0.0, (between - (len(groups) - 1) * within) / total))


def _ranks(scores: Sequence[float]) -> list[float]:
    """From 0; equal scores have the mean of their ranks."""
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
    """1 and true are equal, and mean two things; what is no plain value counts by how it is written."""
    return (type(value).__name__, value if isinstance(value, Hashable) else repr(value))
