"""Versions of drivers, CUDA and compute capabilities: numbers with dots."""

from functools import lru_cache

from corral.core.model.units import is_whole

Version = tuple[int, int]


@lru_cache(maxsize=256)
def version_tuple(version: str | None) -> tuple[int, ...] | None:
    """The leading integers of a dotted version, "580.159.03" -> (580, 159, 3); None when there are none."""
    numbers = []
    for part in (version or "").split("."):
        if not is_whole(part):
            break
        numbers.append(int(part))
    return tuple(numbers) or None


def version_of(text: str) -> Version | None:
    """(12, 4) for "12.4" or "12.4.127", (12, 0) for "12", None for anything else."""
    numbers = version_tuple(text)
    return None if numbers is None else (numbers[0], numbers[1] if len(numbers) > 1 else 0)


def dotted(version: tuple[int, ...]) -> str:
    """A version as people write it: "12.4"."""
    return ".".join(map(str, version))
