"""Shows a job its own devices only: by variables, and in a container by the request to the container's daemon."""

from collections.abc import Collection, Mapping, Sequence

from corral.vendors.nvidia.gpu_labels import GPU
from corral.vendors.vendor import Json, Reached


def visible(uuids: Sequence[str]) -> Mapping[str, str]:
    """The variables by which CUDA shows a process these devices alone."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuids), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def in_container(devices: Sequence[Reached], cdi_devices: Collection[str]) -> Json:
    """The devices by CDI if the daemon knows the CDI name of each, else by the NVIDIA toolkit."""
    uuids = [device.uuid for device in devices]
    names = [f"{GPU}={uuid}" for uuid in uuids]
    if set(names) <= set(cdi_devices):
        return {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": names}]}
    toolkit = {"Driver": "", "Count": 0, "DeviceIDs": uuids, "Capabilities": [["gpu"]], "Options": {}}
    return {"DeviceRequests": [toolkit]}
