"""The devices that the planner chose for a pod, as an annotation on the pod.

The annotation is written with the binding, so the agent on the node reads it without the server. Whoever may write
pods can write it: it is a wish, and the agent gives no device by it that another pod has.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from corral.core.model.devices.means import Means
from corral.core.model.runs.launch import Launch
from corral.core.model.units import MILLI_PER_DEVICE
from corral.vendors.vendor import PlacedPart

DEVICES = "corral.dev/devices"

MOST_DEVICES = 256
_DEVICE = re.compile(r"([A-Za-z0-9._-]{1,63}):(\d{1,4}):(\d{0,9}):([a-z]{1,12})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """A device, or a part of one, for a pod.

    `memory_mib` is None if no amount is granted: the pod then has the memory of its share. `means` is how it is shared.
    """

    uuid: str
    share_milli: int = MILLI_PER_DEVICE
    memory_mib: int | None = None
    means: Means = Means.EXCLUSIVE


def written(devices: Sequence[PlannedDevice]) -> str:
    """Return the annotation's value: "UUID:MILLI:MIB:MEANS" for each device, with commas; no MIB if it is None."""
    return ",".join(
        f"{one.uuid}:{one.share_milli}:{'' if one.memory_mib is None else one.memory_mib}:{one.means.value}"
        for one in devices
    )


def note_of(launch: Launch, parts: Sequence[PlacedPart]) -> dict[str, str]:
    """Return the annotation for the pod of a launch; none if it is not known which devices its parts are of."""
    uuids = [part.uuid for part in parts]
    if not uuids or None in uuids:
        return {}
    means = [use.device.held_by(part.share_milli) for use, part in zip(launch.uses, parts, strict=True)]
    planned = [
        PlannedDevice(part.uuid or "", part.share_milli, part.memory_mib, one)
        for part, one in zip(parts, means, strict=True)
    ]
    return {DEVICES: written(planned)}


def planned(text: str) -> tuple[PlannedDevice, ...] | None:
    """Read the annotation, which is untrusted. None if it makes no sense."""
    parts = text.split(",") if text else []
    if len(parts) > MOST_DEVICES:
        return None
    found = tuple(one for part in parts if (one := _planned(part)) is not None)
    return found if len(found) == len(parts) else None


def _planned(part: str) -> PlannedDevice | None:
    match = _DEVICE.fullmatch(part)
    if match is None or match[4] not in {means.value for means in Means} or not 1 <= int(match[2]) <= MILLI_PER_DEVICE:
        return None
    memory_mib = int(match[3]) if match[3] else None
    # To the software that keeps containers to their memory, a limit of 0 is none.
    return None if memory_mib == 0 else PlannedDevice(match[1], int(match[2]), memory_mib, Means(match[4]))
