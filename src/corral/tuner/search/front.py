"""The Pareto front of candidates with several scores."""

from collections.abc import Sequence


def not_beaten(scores: Sequence[tuple[float, ...]]) -> list[int]:
    """The indices of those that no other beats, by being as good in every score and better in one; by ascending scores.

    Of equal ones the first is kept. Lower is better.
    """
    front: list[int] = []
    for index in sorted(range(len(scores)), key=lambda index: scores[index]):
        if not any(_as_good(scores[kept], scores[index]) for kept in front):
            front.append(index)
    return front


def _as_good(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
