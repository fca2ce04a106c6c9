"""Fill devices with a share: whole devices first, and the rest on the device with the least room for it.

All amounts are milli-GPU. Devices are identified by their position: the result is parallel to the input.
"""

from collections.abc import Collection, Sequence

from corral.core.model.placing.split import NoRoom, Strategy, split
from corral.core.model.units import MILLI_PER_DEVICE


def fill(
    wanted_milli: int, free_milli: Sequence[int], *, refuse_fragmenting: bool = False, wholes: Collection[int] = ()
) -> tuple[int, ...] | NoRoom:
    """The milli-GPU to take of each device, or why there is no room.

    It takes as many whole devices as the share needs and as are free: those in `wholes` first, then the lowest. The
    rest comes from the device with the least room for it (the last of equal ones), or else from several, as in
    `corral.core.model.placing.split`. Raises Refused as `split` does.
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
