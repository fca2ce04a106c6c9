"""The devices that allocations held, with begin and end in whole milliseconds. Pure.

Time is counted in integers, so that sums agree to the millisecond however they are grouped: device time in
milliseconds, and grants in milli-GPU times milliseconds.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from corral.core.model.placing.allocation import Member
from corral.core.model.runs.run_history import HeldAllocation, MeteredHour

HOUR_MS = 3_600_000


class HeldDevice(NamedTuple):
    """A device that an allocation holds or held: `milli` of it, from `begin_ms` to `end_ms` (Unix milliseconds).

    `end_ms` of a live allocation is now. `wasted_from_ms` is as `HeldAllocation.wasted_from`. `model` is None if
    unknown.
    """

    allocation: HeldAllocation
    node: str
    uuid: str
    milli: int
    model: str | None
    begin_ms: int
    end_ms: int
    wasted_from_ms: int | None = None


class Measured(NamedTuple):
    """The measurements of a stretch of time; `energy_mj` is None if unknown."""

    used_ms: int
    idle_ms: int
    energy_mj: int | None


NOTHING = Measured(0, 0, None)

ModelOf = Callable[[HeldAllocation, str], str | None]
"""The model of a device of an allocation, None if it is not known any more."""


def milliseconds(at: float) -> int:
    """Unix seconds in whole milliseconds."""
    return round(at * 1000)


def held_devices(held: Iterable[HeldAllocation], now: float, model_of: ModelOf) -> Iterator[HeldDevice]:
    """Each device of each allocation once, however many members of a gang have a part of it."""
    now_ms = milliseconds(now)
    for allocation in held:
        begin_ms = milliseconds(allocation.created_at)
        end_ms = now_ms if allocation.ended_at is None else milliseconds(allocation.ended_at)
        if end_ms <= begin_ms:
            # The clock of one boot may be behind that of the previous boot.
            continue
        wasted = allocation.wasted_from
        wasted_ms = None if wasted is None else min(max(milliseconds(wasted), begin_ms), end_ms)
        for (node, uuid), milli in _shares(allocation.members):
            model = model_of(allocation, uuid)
            yield HeldDevice(allocation, node, uuid, milli, model, begin_ms, end_ms, wasted_ms)


@lru_cache(maxsize=4096)
def _shares(members: tuple[Member, ...]) -> tuple[tuple[tuple[str, str], int], ...]:
    """Node and UUID of each device, with how much of it all members have."""
    shares: dict[tuple[str, str], int] = {}
    for member in members:
        for grant in member.grants:
            place = member.node, grant.uuid
            shares[place] = shares.get(place, 0) + grant.counted_milli
    return tuple(shares.items())


def measured_within(row: MeteredHour, held_ms: tuple[int, int], since_ms: int, until_ms: int) -> Measured:
    """Return the part of an hour's measurements between two moments, for a device that was held in `held_ms`.

    The measured time is spread evenly over the part of the hour in which the device was held, and cut to its length. So
    the parts of an hour add up to all of it, to the millisecond. In each part, the measured time is at most its length,
    and the used time at most the measured time.
    """
    begin_ms = max(held_ms[0], row.hour * HOUR_MS)
    length_ms = min(held_ms[1], (row.hour + 1) * HOUR_MS) - begin_ms
    first_ms, last_ms = (min(max(at - begin_ms, 0), length_ms) for at in (since_ms, until_ms))
    if length_ms <= 0 or first_ms >= last_ms:
        return NOTHING
    both_ms = row.used_ms + row.idle_ms
    metered_ms = min(both_ms, length_ms)
    used_ms = row.used_ms * metered_ms // both_ms if both_ms else 0
    metered = [metered_ms * at // length_ms for at in (first_ms, last_ms)]
    used = [used_ms * at // metered_ms if metered_ms else 0 for at in metered]
    energy_mj = None
    if row.energy_mj is not None:
        energy_mj = row.energy_mj * last_ms // length_ms - row.energy_mj * first_ms // length_ms
    used_here = used[1] - used[0]
    return Measured(used_here, metered[1] - metered[0] - used_here, energy_mj)
