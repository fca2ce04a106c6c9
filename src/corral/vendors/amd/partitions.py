"""Compute partitions: equal parts of a device. An administrator creates them, never Corral."""

import re

from corral.core.model.devices.device import Device
from corral.core.model.units import MILLI_PER_DEVICE

WHOLE = "SPX"
"""The mode of a device that is not cut."""

_PROFILE = re.compile(r"-(?=(?:dpx|tpx|qpx|cpx)\b)", re.IGNORECASE)


def slice_milli(profile: str, memory_mib: int | None, device: Device) -> int:
    """The milli-GPU that a partition counts as. All partitions of a device are equal."""
    return MILLI_PER_DEVICE // max(1, len(device.partitions))


def slice_of(name: str) -> tuple[str, str]:
    """The model and the mode in the name of a partition in a mock file: "AMD Instinct MI300X-cpx"."""
    model, *mode = _PROFILE.split(name, maxsplit=1)
    return model, mode[0].lower() if mode else "cpx"


def slice_id(uuid: str, row: int) -> str:
    """The UUID of the partition that a row of a mock file describes."""
    return f"{uuid}-p{row}"
