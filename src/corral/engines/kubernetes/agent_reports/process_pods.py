"""The pods of the processes on a node's devices, by their cgroups."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from corral.core.model.devices.device import ContainerOfOthers, DeviceProcess, DeviceSample
from corral.engines.kubernetes.inventory.occupants import Occupant, PodName

_LONGEST_PATH = 4096
# "/kubepods/burstable/pod<UID>/<container>" with the kubelet's driver cgroupfs, and with systemd
# "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID with _ for ->.slice/docker-<container>.scope".
# A process that is in a cgroup namespace of its own sees "/../.." in place of the beginning.
_POD = re.compile(
    r"/(?:kubepods[a-z-]*-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(?=[/:]|$)", re.ASCII
)
_CONTAINER = re.compile(r"[0-9a-f]{64}", re.ASCII)
_OF_USERS = "/user.slice/"
"""The cgroup below which users of a host may make groups, and name them as they like."""


def place_in(cgroup: str) -> tuple[str, str | None] | None:
    """Return the UID of the pod and the id of the container whose cgroup this is, or is below; None for the container
    if it is the pod's own group. None if it is of no pod.

    The outermost pod counts: who may make groups in a container may name them like the groups of other pods.
    """
    found = _POD.search(cgroup[:_LONGEST_PATH])
    if found is None or _OF_USERS in cgroup[: found.start() + 1]:
        return None
    next_below = cgroup[found.end() : _LONGEST_PATH].lstrip("/:").partition("/")[0]
    container = _CONTAINER.search(next_below)
    return found[1].replace("_", "-"), None if container is None else container[0]


PodOf = Callable[[str], Occupant | None]
"""Returns the pod with this UID, None if there is none on a node."""


def name_pods(
    samples: tuple[DeviceSample, ...], node: str, pod_of: PodOf
) -> tuple[tuple[DeviceSample, ...], Mapping[int, PodName]]:
    """Return the samples of a node with the containers of their processes by the cluster's names, and the pods of
    these processes by pid. A pod of another node is not named.
    """
    pods: dict[int, PodName] = {}

    def named(process: DeviceProcess) -> DeviceProcess:
        place = place_in(process.cgroup or "")
        pod = None if place is None else pod_of(place[0])
        if place is None or pod is None or pod.node != node:
            return replace(process, runs_in=None)
        pods[process.pid] = pod.key
        found = next((one for one in pod.containers if one.id == place[1]), None)
        words = (*pod.key, found.name) if found is not None else pod.key
        return replace(process, runs_in=ContainerOfOthers("/".join(words), "" if found is None else found.image))

    found = tuple(
        replace(sample, processes=tuple(map(named, sample.processes))) if sample.processes else sample
        for sample in samples
    )
    return found, pods
