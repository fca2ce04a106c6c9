"""MIG slices: how they are named, and what each is of its device."""

import re

from corral.core.model.devices.device import Device
from corral.core.model.units import MILLI_PER_DEVICE

_PROFILE = re.compile(r"-(?=\d+g\b)")
"""Before a slice's profile, 1g.10gb or 20g; models have hyphens, too."""

_COMPUTE_SLICES = re.compile(r"(\d+)g\.")


def slice_milli(profile: str, memory_mib: int | None, device: Device) -> int:
    """What a slice counts as, in milli-GPU: the larger of its parts of compute (sevenths) and memory (eighths).

    So NVIDIA divides its devices, except some with four slices, whose memory is in quarters. A profile that
    tells neither counts as the whole device.
    """
    compute, memory_eighths = _COMPUTE_SLICES.match(profile), 0
    if memory_mib is not None and device.memory_mib:
        memory_eighths = round(8 * memory_mib / device.memory_mib)
    sevenths = int(compute[1]) if compute else 0
    parts = (sevenths * MILLI_PER_DEVICE // 7, memory_eighths * MILLI_PER_DEVICE // 8)
    return min(MILLI_PER_DEVICE, max(parts)) or MILLI_PER_DEVICE


def slice_of(name: str) -> tuple[str, str]:
    """The model and the profile in the name of a slice's model."""
    model, *profile = _PROFILE.split(name, maxsplit=1)
    if profile:
        return model, profile[0]
    model, _, rest = name.partition("-")
    return model, rest


def slice_id(uuid: str, row: int) -> str:
    """What Backend.ai calls the slice that a row of a mock file describes."""
    return f"MIG-{uuid}/{row}/0"
