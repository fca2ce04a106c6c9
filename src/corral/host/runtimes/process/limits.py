"""Resource limits of a job: lowered if it asks for less than the server has, never raised."""

import resource
from collections.abc import Mapping


def lowered(wanted: Mapping[str, int]) -> tuple[dict[str, int], tuple[str, ...]]:
    """The soft limits to give for those asked for by name (RLIMIT_*), and a line for each that differs from it."""
    limits: dict[str, int] = {}
    lines: list[str] = []
    for name, soft in wanted.items():
        number = getattr(resource, name, None)
        if not name.startswith("RLIMIT_") or number is None:
            lines.append(f"limit {name} is not known on this machine and stays as it is")
            continue
        most = resource.getrlimit(number)[1]
        limits[name] = _at_most(soft, most)
        if limits[name] != soft:
            lines.append(f"limit {name} is {most} instead of {_words(soft)}: the server itself may have no more")
    return limits, tuple(lines)


def _at_most(soft: int, most: int) -> int:
    if most == resource.RLIM_INFINITY:
        return soft
    return most if soft == resource.RLIM_INFINITY else min(soft, most)


def _words(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
