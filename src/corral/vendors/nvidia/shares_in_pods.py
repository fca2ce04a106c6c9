"""Parts of a GPU in a cluster: their resources, under the names of the plugins that usually offer them."""

from collections.abc import Mapping

from corral.core.model.devices.means import Means
from corral.vendors.vendor import MemoryResource, PodShare, SharedBy

SHARED = {
    Means.HOOK: SharedBy("tencent.com/vcuda-core", MemoryResource("tencent.com/vcuda-memory", 256)),
    Means.MPS: SharedBy("nvidia.com/mps-core", MemoryResource("nvidia.com/mps-memory", 1)),
}

_LIBRARY, _ACCOUNT = "LD_PRELOAD", "CUDA_DEVICE_MEMORY_SHARED_CACHE"
_PATHS_OF_MPS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
_SHARED_MEMORY = "/dev/shm"


def pod_share(means: Means, variables: Mapping[str, str]) -> PodShare:
    """What a container gets for a part of a GPU, by the variables of the means' driver."""
    if means is Means.MPS:
        # Its servers and clients meet in the host's shared memory, too.
        return PodShare(variables, (*(variables[name] for name in _PATHS_OF_MPS), _SHARED_MEMORY))
    if means is Means.HOOK:
        # The account of memory is the container's own, in its own file system.
        return PodShare({**variables, _ACCOUNT: "/tmp/corral-hook.cache"}, read_only=(variables[_LIBRARY],))
    return PodShare(variables)
