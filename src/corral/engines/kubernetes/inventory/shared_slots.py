"""The parts of a node's devices that pods have which are no jobs. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from corral.core.model.devices.device import HeldPart, HoldingPod
from corral.core.model.units import MILLI_PER_DEVICE
from corral.engines.kubernetes.inventory.occupants import Occupant
from corral.engines.kubernetes.shares.pod_shares import HeldShare
from corral.engines.kubernetes.shares.served_shares import ServedShares


def held_parts(slots: int, shared: ServedShares, others: Sequence[Occupant]) -> Mapping[int, tuple[HeldPart, ...]]:
    """Return the parts by slot. A part whose device is unknown counts on every device: it may be on any of them."""
    numbers = {device.uuid: slot for slot, device in enumerate(shared.devices) if device.uuid is not None}
    parts: dict[int, list[HeldPart]] = {}
    for one in others:
        for share in one.shares:
            for slot in _slots_of(share, numbers, slots):
                parts.setdefault(slot, []).append(_part(one.pod, share, shared, slot))
    return {slot: tuple(found) for slot, found in parts.items()}


def _slots_of(share: HeldShare, numbers: Mapping[str, int], slots: int) -> Iterator[int]:
    ref = share.device
    slot = None if ref is None else numbers.get(ref)
    if slot is None and ref is not None and not numbers and ref.isdecimal() and int(ref) < slots:
        slot = int(ref)
    yield from range(slots) if slot is None else (slot,)


def _part(pod: HoldingPod, share: HeldShare, shared: ServedShares, slot: int) -> HeldPart:
    total_mib = shared.devices[slot].memory_mib if slot < len(shared.devices) else None
    memory_mib = share.memory_mib
    if share.memory_percent is not None and total_mib is not None:
        memory_mib = total_mib * share.memory_percent // 100
    milli = share.share_milli
    if milli is None:
        # As much as of the memory, and all of a device whose memory is unknown.
        known = memory_mib is not None and total_mib
        milli = min(MILLI_PER_DEVICE, -(-(memory_mib or 0) * MILLI_PER_DEVICE // (total_mib or 1))) if known else None
    return HeldPart(pod, MILLI_PER_DEVICE if milli is None else milli, memory_mib)
