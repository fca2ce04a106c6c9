"""Shows a job its own devices only: by variables, and in a container by the request to the container's daemon.

A part of a GPU in a pod also comes with what its means of sharing needs.
"""

from collections.abc import Collection, Mapping, Sequence

from corral.core.model.devices.means import Means
from corral.vendors.nvidia.gpu_labels import GPU
from corral.vendors.vendor import Json, MemoryResource, PodShare, Reached, SharedBy

SHARED = {
    Means.HOOK: SharedBy("tencent.com/vcuda-core", MemoryResource("tencent.com/vcuda-memory", 256)),
    Means.MPS: SharedBy("nvidia.com/mps-core", MemoryResource("nvidia.com/mps-memory", 1)),
}
"""The resources of parts of GPUs in a cluster, under the names of the plugins that usually offer them."""

_LIBRARY, _ACCOUNT = "LD_PRELOAD", "CUDA_DEVICE_MEMORY_SHARED_CACHE"
_PATHS_OF_MPS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
_SHARED_MEMORY = "/dev/shm"


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


def pod_share(means: Means, variables: Mapping[str, str]) -> PodShare:
    """Return the access of a container to a part of a GPU, by the variables of the means' driver."""
    if means is Means.MPS:
        # Its servers and clients meet in the host's shared memory, too.
        return PodShare(variables, (*(variables[name] for name in _PATHS_OF_MPS), _SHARED_MEMORY))
    if means is Means.HOOK:
        # The account of memory is the container's own, in its own file system.
        return PodShare({**variables, _ACCOUNT: "/tmp/corral-hook.cache"}, read_only=(variables[_LIBRARY],))
    return PodShare(variables)
