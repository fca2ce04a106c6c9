"""Makes the record of the chosen devices that is kept with an allocation."""

from corral.core.model.devices.device import availability_score
from corral.core.model.placing.allocation import ChosenDevice, GpuInfo
from corral.core.model.placing.plan import Start
from corral.core.model.view import View


def gpu_info(view: View, start: Start) -> GpuInfo:
    """The chosen devices with their current free memory, utilisation and score, and the policy that chose them."""
    placement, details = start.placement, []
    chosen = frozenset(placement.uuids)
    nodes = dict.fromkeys(member.node for member in placement.members)
    devices = {
        device.uuid: device
        for name in nodes
        if name in view.nodes
        for device in view.nodes[name].devices
        if device.uuid in chosen
    }
    for uuid in placement.uuids:
        device = devices.get(uuid)
        if device is None:
            continue
        condition = view.conditions.get(uuid)
        free_mib = condition.memory_free_mib if condition else None
        utilization = condition.utilization_pct if condition else None
        score = availability_score(free_mib, device.memory_mib, utilization, view.availability_memory_weight)
        details.append(ChosenDevice(device.index, device.model, free_mib, utilization, round(score, 4)))
    return GpuInfo(len(details), tuple(chosen.index for chosen in details), start.method, tuple(details))
