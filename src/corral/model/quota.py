"""What a grant counts as, against every quota and as use: the largest part of its device that is had by it."""

from typing import NamedTuple

from corral.model.units import MILLI_PER_DEVICE, SHARE_QUANTUM_MILLI


class Held(NamedTuple):
    """What is held: started jobs, devices (shared ones too), milli-GPU as they count, and MiB granted."""

    running: int = 0
    devices: int = 0
    milli: int = 0
    memory_mib: int = 0

    def plus(self, other: "Held", sign: int = 1) -> "Held":
        """The sum, or with `sign` -1 the difference."""
        return Held(
            self.running + sign * other.running,
            self.devices + sign * other.devices,
            self.milli + sign * other.milli,
            self.memory_mib + sign * other.memory_mib,
        )


NOTHING = Held()


def counted_milli(
    share_milli: int,
    *,
    memory_mib: int | None = None,
    device_mib: int | None = None,
    cores_percent: int | None = None,
    slice_milli: int | None = None,
) -> int:
    """Milli-GPU that a part of one device counts as: of share, memory and cores the largest part, in whole quanta.

    Whoever has most of a device's memory leaves the rest of it to nobody, however small the share. Memory of a device
    whose own is not known counts nothing more. A slice counts as what it is of its device, `slice_milli`.
    """
    if slice_milli is not None:
        return slice_milli
    quanta = 0
    if memory_mib is not None and device_mib:
        quanta = -(-memory_mib * MILLI_PER_DEVICE // (device_mib * SHARE_QUANTUM_MILLI))
    cores_milli = (cores_percent or 0) * MILLI_PER_DEVICE // 100
    return min(MILLI_PER_DEVICE, max(share_milli, quanta * SHARE_QUANTUM_MILLI, cores_milli))


def least_device_mib(memory_mib: int, most_milli: int) -> int:
    """The least memory of a device of which `memory_mib` count as no more than `most_milli`."""
    quanta = max(1, most_milli // SHARE_QUANTUM_MILLI)
    return -(-memory_mib * MILLI_PER_DEVICE // (quanta * SHARE_QUANTUM_MILLI))
