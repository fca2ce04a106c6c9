"""The Pareto front of candidates with several scores."""

from collections.abc import Sequence


def not_beaten(scores: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the indices of the candidates that no other dominates, by ascending scores.

    A candidate dominates another if it is as good in every score and better in one. Of equal ones the first is kept.
    Lower is better.
    """
    front: list[int] = []
    for index in sorted(range(len(scores)), key=lambda index: scores[index]):
        if not any(_as_good(scores[kept], scores[index]) for kept in front):
            front.append(index)
    return front


def _as_good(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
