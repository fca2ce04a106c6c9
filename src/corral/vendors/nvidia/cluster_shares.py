"""The software that gives pods parts of NVIDIA's devices, with the names, annotations and rules of each.

The annotations of pods and nodes are written by other software and by users: what makes no sense is passed over.
"""

import json
import re
from collections.abc import Callable, Mapping

from corral.core.model.devices.means import Means
from corral.vendors.nvidia.gpu_labels import GPU
from corral.vendors.vendor import AtBinding, RegisteredDevice, ShareLayer

MOST_DEVICES = 256
MOST_CONTAINERS = 64
_MOST_TEXT = 64 * 1024
_UUID = re.compile(r"[A-Za-z0-9._-]{1,63}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9.]{1,20})?", re.ASCII)

CORE, MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
_PREDICATE = "tencent.com/predicate-"
_INDICES = f"{_PREDICATE}gpu-idx-"
_CUDA_BELOW = (12, 4)
"""GPU-Manager's library supports older versions only."""


def _manager_env_refusal(env: Mapping[str, str]) -> str | None:
    match = _VERSION.fullmatch(env.get("CUDA_VERSION", ""))
    if match is None or (int(match[1]), int(match[2])) < _CUDA_BELOW:
        return None
    return (
        f"its variable CUDA_VERSION says {match[1]}.{match[2]}, and GPU-Manager divides GPUs for CUDA below "
        f"{_CUDA_BELOW[0]}.{_CUDA_BELOW[1]} only; take an image for CUDA 12.3 or older, or ask for a whole GPU "
        f"({CORE}: 100)"
    )


def _manager_at_binding(bound: AtBinding) -> dict[str, str]:
    return {
        f"{_INDICES}{bound.container}": ",".join(str(part.number) for part in bound.parts),
        f"{_PREDICATE}node": bound.node,
        f"{_PREDICATE}time": str(int(bound.now_s * 1_000_000_000)),
        "tencent.com/gpu-assigned": "false",
    }


def _manager_given(notes: Mapping[str, str]) -> dict[int, tuple[str, ...]]:
    found = {}
    for container in range(MOST_CONTAINERS):
        written = notes.get(f"{_INDICES}{container}", "")
        indices = written.split(",")[: MOST_DEVICES + 1] if len(written) <= _MOST_TEXT else []
        if indices and len(indices) <= MOST_DEVICES and all(_NUMBER.fullmatch(index) for index in indices):
            found[container] = tuple(str(int(index)) for index in indices)
    return found


def _registered(key: str) -> Callable[[Mapping[str, str]], tuple[RegisteredDevice, ...] | None]:
    def read(notes: Mapping[str, str]) -> tuple[RegisteredDevice, ...] | None:
        written = notes.get(key, "")
        if not written or len(written) > _MOST_TEXT:
            return None
        devices = _of_json(written) if written.lstrip().startswith("[") else _of_fields(written)
        return None if not devices or len({one.uuid for one in devices}) < len(devices) else tuple(devices)

    return read


def _of_json(written: str) -> list[RegisteredDevice] | None:
    """Return the devices of `[{"id", "devmem", "type", "health", ...}]`; values that are zero or false are left out."""
    try:
        rows = json.loads(written)
    except (ValueError, RecursionError):
        return None
    if not isinstance(rows, list) or len(rows) > MOST_DEVICES or not all(isinstance(row, dict) for row in rows):
        return None
    read = [_device(row.get("id"), row.get("devmem"), row.get("type"), row.get("health") is True) for row in rows]
    found = [one for one in read if one is not None]
    return found if len(found) == len(read) else None


def _of_fields(written: str) -> list[RegisteredDevice] | None:
    """Return the devices of "UUID,COUNT,MIB,...:"; of the fields the model follows, in place four or five, then the
    health.
    """
    rows = [row.split(",") for row in written.strip(":").split(":")]
    if len(rows) > MOST_DEVICES:
        return None
    read = []
    for row in rows:
        health = next((place for place, field in enumerate(row) if place > 3 and field in ("true", "false")), None)
        if health is None or not _NUMBER.fullmatch(row[2]):
            return None
        model = next((field for field in row[3:health] if not _NUMBER.fullmatch(field)), None)
        read.append(_device(row[0], int(row[2]), model, row[health] == "true"))
    found = [one for one in read if one is not None]
    return found if len(found) == len(read) else None


def _device(uuid: object, memory_mib: object, model: object, healthy: bool) -> RegisteredDevice | None:
    if not isinstance(uuid, str) or not _UUID.fullmatch(uuid):
        return None
    if isinstance(memory_mib, bool) or not isinstance(memory_mib, int) or not 0 < memory_mib < 10**9:
        return None
    named = model if isinstance(model, str) and 0 < len(model) <= 100 and model.isprintable() else None
    return RegisteredDevice(uuid, memory_mib, named, healthy)


def _devices_written(bound: AtBinding) -> str:
    """Return the devices of all containers: "UUID,NVIDIA,MIB,CORES:" a device, and ";" after each container."""
    own = "".join(f"{part.uuid},NVIDIA,{part.memory_mib or 0},{part.cores_percent}:" for part in bound.parts)
    return "".join(f"{own if container == bound.container else ''};" for container in range(bound.containers))


def _at_binding(
    domain: str, allocated: str, to_allocate: str, node: str, more: Mapping[str, str]
) -> Callable[..., dict[str, str]]:
    def write(bound: AtBinding) -> dict[str, str]:
        if any(part.uuid is None for part in bound.parts):
            return {}
        devices, now = _devices_written(bound), str(int(bound.now_s))
        return {
            f"{domain}{allocated}": devices,
            f"{domain}{to_allocate}": devices,
            f"{domain}{node}": bound.node,
            f"{domain}vgpu-time": now,
            f"{domain}bind-time": now,
            f"{domain}bind-phase": "allocating",
            **more,
        }

    return write


def _given(key: str) -> Callable[[Mapping[str, str]], dict[int, tuple[str, ...]]]:
    def read(notes: Mapping[str, str]) -> dict[int, tuple[str, ...]]:
        written = notes.get(key, "")
        if len(written) > _MOST_TEXT:
            return {}
        found = {}
        for container, devices in enumerate(written.split(";")[:MOST_CONTAINERS]):
            uuids = [device.split(",")[0] for device in devices.split(":") if device][: MOST_DEVICES + 1]
            if uuids and len(uuids) <= MOST_DEVICES and all(_UUID.fullmatch(uuid) for uuid in uuids):
                found[container] = tuple(uuids)
        return found

    return read


SHARES: tuple[ShareLayer, ...] = (
    ShareLayer(
        "GPU-Manager",
        Means.HOOK,
        known_by=CORE,
        resources=(CORE, MEMORY),
        core=CORE,
        memory=MEMORY,
        by_core=True,
        at_binding=_manager_at_binding,
        given=_manager_given,
        env_refusal=_manager_env_refusal,
    ),
    ShareLayer(
        "the MPS plugin",
        Means.MPS,
        known_by="nvidia.com/mps-core",
        resources=("nvidia.com/mps-core", "nvidia.com/mps-memory"),
        core="nvidia.com/mps-core",
        memory="nvidia.com/mps-memory",
        by_core=True,
        min_compute=(7, 0),
        min_cuda=(11, 5),
    ),
    ShareLayer(
        "HAMi",
        Means.HOOK,
        known_by="nvidia.com/gpumem",
        resources=("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
        core="nvidia.com/gpucores",
        memory="nvidia.com/gpumem",
        count=GPU,
        registered=_registered("hami.io/node-nvidia-register"),
        at_binding=_at_binding("hami.io/", "vgpu-devices-allocated", "vgpu-devices-to-allocate", "vgpu-node", {}),
        given=_given("hami.io/vgpu-devices-allocated"),
        awaits=("hami.io/bind-phase", "allocating"),
    ),
    ShareLayer(
        "Volcano",
        Means.HOOK,
        known_by="volcano.sh/vgpu-number",
        resources=tuple(f"volcano.sh/vgpu-{what}" for what in ("number", "memory", "memory-percentage", "cores")),
        core="volcano.sh/vgpu-cores",
        memory="volcano.sh/vgpu-memory",
        count="volcano.sh/vgpu-number",
        registered=_registered("volcano.sh/node-vgpu-register"),
        at_binding=_at_binding(
            "volcano.sh/", "vgpu-ids-new", "devices-to-allocate", "vgpu-node", {"volcano.sh/vgpu-mode": "hami-core"}
        ),
        given=_given("volcano.sh/vgpu-ids-new"),
        awaits=("volcano.sh/bind-phase", "allocating"),
    ),
)
