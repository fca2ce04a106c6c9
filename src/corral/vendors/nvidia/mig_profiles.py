"""MIG slices: their names, and the fraction of the device that each counts as."""

import re

from corral.core.model.devices.device import Device
from corral.core.model.units import MILLI_PER_DEVICE

_PROFILE = re.compile(r"-(?=\d+g\b)")
"""The hyphen before a slice's profile, 1g.10gb or 20g. Models have hyphens, too."""

_COMPUTE_SLICES = re.compile(r"(\d+)g\.")


def slice_milli(profile: str, memory_mib: int | None, device: Device) -> int:
    """The milli-GPU of a slice: the larger of its parts of compute (sevenths) and memory (eighths).

    NVIDIA divides its devices this way, except some with four slices, whose memory is in quarters. A profile
    without these parts counts as the whole device.
    """
    compute, memory_eighths = _COMPUTE_SLICES.match(profile), 0
    if memory_mib is not None and device.memory_mib:
        memory_eighths = round(8 * memory_mib / device.memory_mib)
    sevenths = int(compute[1]) if compute else 0
    parts = (sevenths * MILLI_PER_DEVICE // 7, memory_eighths * MILLI_PER_DEVICE // 8)
    return min(MILLI_PER_DEVICE, max(parts)) or MILLI_PER_DEVICE


def slice_of(name: str) -> tuple[str, str]:
    """The model and the profile in the model name of a slice."""
    model, *profile = _PROFILE.split(name, maxsplit=1)
    if profile:
        return model, profile[0]
    model, _, rest = name.partition("-")
    return model, rest


def slice_id(uuid: str, row: int) -> str:
    """The name in Backend.ai of the slice that a row of a mock file describes."""
    return f"MIG-{uuid}/{row}/0"
