"""Which of a node's slots are taken by pods of others. Pure.

A cluster says how many devices a pod has, and not which: so the pods of others are put on slots that no job of Corral's
has, and stay where they are as long as they can, so that what is told of a device does not change without a reason.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A pod that takes `devices` of a node's devices; `uid` is the pod's."""

    uid: str
    devices: int


@dataclass(frozen=True, slots=True)
class SlotUse:
    """Who has which slot of a node.

    Attributes:
        pods: the UID of the pod of somebody else on each slot that one has.
        sick: slots that count as those that are unhealthy.
    """

    pods: Mapping[int, str] = field(default_factory=dict)
    sick: frozenset[int] = frozenset()


def assign(
    slots: int,
    held: Collection[int],
    others: Sequence[PodClaim],
    sick: int,
    before: SlotUse,
    *,
    chosen: Collection[int] = (),
) -> SlotUse:
    """Give each pod of somebody else as many slots as it has devices, the last free ones first, as far as there are.

    Args:
        slots: how many the node has.
        held: those that jobs have.
        others: the pods, in an order that stays.
        sick: how many devices are unhealthy; slots that nobody has count as these first.
        before: how it was.
        chosen: slots that jobs are about to get: a pod is put there only where there is no other.
    """
    taken: dict[int, str] = {}
    free = [slot for slot in range(slots) if slot not in held]
    for claim in others:
        kept = [slot for slot in free if before.pods.get(slot) == claim.uid][: claim.devices]
        taken |= dict.fromkeys(kept, claim.uid)
    for claim in others:
        missing = claim.devices - sum(uid == claim.uid for uid in taken.values())
        # The planner gives the first slots first, so that a pod that comes at the same time rarely meets it.
        left = sorted((slot for slot in free if slot not in taken), key=lambda slot: (slot in chosen, -slot))
        newly = left[: max(0, missing)]
        taken |= dict.fromkeys(newly, claim.uid)
    return SlotUse(dict(sorted(taken.items())), _sick(slots, held, taken, sick, before))


def _sick(slots: int, held: Collection[int], taken: Mapping[int, str], count: int, before: SlotUse) -> frozenset[int]:
    """Slots that nobody has come first, then those of others; one that was sick stays so."""

    def rank(slot: int) -> tuple[bool, bool, bool, int]:
        return slot in held, slot in taken, slot not in before.sick, -slot

    return frozenset(sorted(range(slots), key=rank)[:count])
