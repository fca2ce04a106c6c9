"""Split a share over several devices: into equal parts, or whole devices first. All amounts are milli-GPU.

Devices are identified by their position: a result is parallel to its input.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from corral.core.model.errors import Refused
from corral.core.model.units import MILLI_PER_DEVICE, SHARE_QUANTUM_MILLI, format_share


class Strategy(StrEnum):
    """EVENLY makes equal parts; FILL uses up one device after the other."""

    EVENLY = "evenly"
    FILL = "fill"


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The reason why a share cannot be split over these devices. `parts` is a split that would fragment, if that is the
    reason.
    """

    wanted_milli: int
    free_milli: int
    parts: tuple[int, ...] = ()

    @property
    def reason(self) -> str:
        """The reason for a person."""
        wanted = format_share(self.wanted_milli)
        if self.parts:
            parts = " + ".join(format_share(part) for part in self.parts if part)
            return (
                f"{wanted} of a GPU fits only in pieces ({parts}) and this site refuses to fragment; "
                "ask for less, or wait until one device has the room"
            )
        free = format_share(self.free_milli)
        missing = format_share(self.wanted_milli - self.free_milli)
        return f"{wanted} of a GPU does not fit: {free} is free in all, {missing} too little"


def split(
    wanted_milli: int,
    free_milli: Sequence[int],
    *,
    strategy: Strategy = Strategy.EVENLY,
    refuse_fragmenting: bool = False,
) -> tuple[int, ...] | NoRoom:
    """The milli-GPU to take of each device, or why there is no room.

    Parts are hundredths of a GPU. `refuse_fragmenting` refuses a split that takes only a part of more than one device.
    Raises Refused if the share is less than a hundredth.
    """
    if wanted_milli < SHARE_QUANTUM_MILLI:
        least = format_share(SHARE_QUANTUM_MILLI)
        raise Refused(f"a share of {format_share(wanted_milli)} is below the least, {least}", field="share")
    wanted = wanted_milli // SHARE_QUANTUM_MILLI
    free = [max(0, amount) // SHARE_QUANTUM_MILLI for amount in free_milli]
    if sum(free) < wanted:
        return NoRoom(wanted_milli, sum(free) * SHARE_QUANTUM_MILLI)
    hundredths = _evenly(wanted, free) if strategy is Strategy.EVENLY else _fill(wanted, free)
    parts = tuple(part * SHARE_QUANTUM_MILLI for part in hundredths)
    if refuse_fragmenting and _fragments(parts):
        return NoRoom(wanted_milli, sum(free) * SHARE_QUANTUM_MILLI, parts)
    return parts


def _fragments(parts: Sequence[int]) -> bool:
    return sum(1 for part in parts if part % MILLI_PER_DEVICE) > 1


def _most_free_first(free: Sequence[int]) -> list[int]:
    return sorted(range(len(free)), key=lambda i: (-free[i], i))


def _fill(wanted: int, free: Sequence[int]) -> list[int]:
    parts = [0] * len(free)
    for i in _most_free_first(free):
        parts[i] = min(wanted, free[i])
        wanted -= parts[i]
    return parts


def _evenly(wanted: int, free: Sequence[int]) -> list[int]:
    parts = [0] * len(free)
    order = _most_free_first(free)
    if free[order[0]] >= wanted:
        tightest = next(i for i in reversed(order) if free[i] >= wanted)
        parts[tightest] = wanted
        return parts
    window, shares = min(_windows(wanted, free, order), key=lambda found: (_unevenness(found[1]), len(found[0])))
    for i, share in zip(window, shares, strict=True):
        parts[i] = share
    return parts


def _windows(wanted: int, free: Sequence[int], order: Sequence[int]) -> Iterator[tuple[Sequence[int], list[int]]]:
    """Each sequence of adjacent devices, sorted by most free, that has enough room, with the part of each device.

    Short sequences come before long ones. Of equal length, those with the least room come first. The caller takes the
    first of equals.
    """
    for size in range(2, len(order) + 1):
        for start in reversed(range(len(order) - size + 1)):
            window = order[start : start + size]
            if sum(free[i] for i in window) >= wanted:
                yield window, _level(wanted, [free[i] for i in window])


def _level(wanted: int, free: Sequence[int]) -> list[int]:
    """Equal parts of `wanted`, but no device gives more than it has. `free` is sorted by most free, and is enough."""
    giving_all = 0
    left = wanted
    for amount in reversed(free):
        equal = len(free) - giving_all
        if amount * equal >= left:
            break
        giving_all += 1
        left -= amount
    equal = len(free) - giving_all
    part, over = divmod(left, equal)
    return [part + 1] * over + [part] * (equal - over) + list(free[equal:])


def _unevenness(parts: Sequence[int]) -> int:
    return sum(abs(a - b) for a, b in pairwise(parts))


def fill(
    wanted_milli: int, free_milli: Sequence[int], *, refuse_fragmenting: bool = False, wholes: Collection[int] = ()
) -> tuple[int, ...] | NoRoom:
    """The milli-GPU to take of each device, or why there is no room.

    It takes as many whole devices as the share needs and as are free: those in `wholes` first, then the lowest. The
    rest comes from the device with the least room for it (the last of equal ones), or else from several as in `split`.
    Raises Refused as `split` does.
    """
    plain = split(wanted_milli, free_milli, strategy=Strategy.FILL, refuse_fragmenting=refuse_fragmenting)
    if isinstance(plain, NoRoom) and not plain.parts:
        return plain
    free = [i for i, milli in enumerate(free_milli) if milli >= MILLI_PER_DEVICE]
    taken = sorted(free, key=lambda i: (i not in wholes, i))[: wanted_milli // MILLI_PER_DEVICE]
    rest = wanted_milli - MILLI_PER_DEVICE * len(taken)
    left = [0 if i in taken else milli for i, milli in enumerate(free_milli)]
    enough = [i for i, milli in enumerate(left) if milli >= rest]
    if not (rest and enough):
        return plain if rest else _parts(len(left), taken)
    parts = list(_parts(len(left), taken))
    parts[min(enough, key=lambda i: (left[i], -i))] = rest
    return tuple(parts)


def _parts(count: int, taken: Collection[int]) -> tuple[int, ...]:
    return tuple(MILLI_PER_DEVICE if i in taken else 0 for i in range(count))
