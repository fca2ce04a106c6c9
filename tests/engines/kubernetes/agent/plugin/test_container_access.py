"""What containers get for their devices: variables, paths, and the device files that are there."""

from pathlib import Path

from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Means
from corral.engines.kubernetes.agent.kubelet_api.allocations import ContainerAccess, Mount
from corral.engines.kubernetes.agent.plugin.container_access import AccessMaker
from corral.engines.kubernetes.agent.plugin.offers import offers
from corral.engines.kubernetes.agent.plugin.plugin_core import GivenToContainer
from tests.engines.kubernetes.agent.plugin.hosts import drivers_of, gpu, healthy, node_of, uuid


def access(device: Device, home: Path, *numbers: int, memory_mib: int | None = None) -> ContainerAccess:
    """What a container gets for a device, or for these parts of it. Its device files are those in the home."""
    (offer,) = offers(node_of(device), healthy((device,)))
    ids = tuple(f"{device.uuid}::{number}" for number in numbers) or (device.uuid,)
    given = GivenToContainer("team", "p", "u", "main", offer.resource, ids, memory_mib)
    return AccessMaker(drivers_of(home, hook="/opt/lib.so"), dev=home).access(offer, given)


def test_a_gpu_comes_by_its_uuid_and_with_the_files_that_are_there(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidiactl", "nvidia1"):
        (tmp_path / name).touch()
    found = access(gpu(0, files=("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap9")), tmp_path)
    assert found == ContainerAccess({"NVIDIA_VISIBLE_DEVICES": uuid(0)}, (), ("/dev/nvidiactl", "/dev/nvidia0"))


def test_an_amd_gpu_comes_by_its_files_alone(tmp_path: Path) -> None:
    (tmp_path / "dri").mkdir()
    for name in ("kfd", "dri/renderD128", "dri/renderD129"):
        (tmp_path / name).touch()
    device = Device("amd-1", 0, "AMD MI300X", 196608, vendor="amd", files=("/dev/dri/renderD128",))
    assert access(device, tmp_path) == ContainerAccess({}, (), ("/dev/kfd", "/dev/dri/renderD128"))


def test_a_part_comes_with_the_library_that_limits_it(tmp_path: Path) -> None:
    found = access(gpu(0, means=Means.HOOK), tmp_path, *range(30), memory_mib=8192)
    assert found.mounts == (Mount("/opt/lib.so", "/opt/lib.so", read_only=True),)
    assert {
        name: found.variables[name] for name in ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT", "LD_PRELOAD")
    } == {
        "CUDA_DEVICE_MEMORY_LIMIT": "8192m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "LD_PRELOAD": "/opt/lib.so",
    }


def test_all_parts_of_a_device_are_the_device_without_limits(tmp_path: Path) -> None:
    found = access(gpu(0, means=Means.HOOK), tmp_path, *range(100), memory_mib=81920)
    assert found == ContainerAccess({"NVIDIA_VISIBLE_DEVICES": uuid(0)})
