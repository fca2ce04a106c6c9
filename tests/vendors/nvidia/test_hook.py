"""Jobs share a GPU under a library that the site installs, and where it is not there they have GPUs whole."""

from dataclasses import replace
from pathlib import Path

import pytest

from corral.config import Settings
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.placing.allocation import Grant
from corral.core.sharing.arrange import Arrangement
from corral.vendors.amd.amd_sharing import AmdSharing
from corral.vendors.nvidia.hook import Hook
from corral.vendors.nvidia.nvidia_sharing import NvidiaSharing
from corral.vendors.vendor import Host
from tests.core.sharing.conftest import tenant


@pytest.fixture
def library(tmp_path: Path) -> Path:
    library = tmp_path / "libvgpu.so"
    library.touch()
    return library


def test_a_job_has_its_limits_and_the_library_that_keeps_them(device: Device, library: Path) -> None:
    hook = Hook(str(library), Path("/home/of"))
    half = replace(tenant("7", 500), grant=Grant(device.uuid, 500, 40960))
    assert dict(hook.environment(device, half)) == {
        "CUDA_DEVICE_MEMORY_LIMIT": "40960m",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/home/of/scratch/7/hook.cache",
        "CUDA_DEVICE_SM_LIMIT": "50",
        "LD_PRELOAD": str(library),
    }
    with pytest.raises(Refused, match="does not say how much memory"):
        hook.environment(device, replace(half, grant=Grant(device.uuid, 500, None)))


def test_shares_are_of_one_device_and_together_no_more_than_it(device: Device, node: Node, library: Path) -> None:
    hook = Hook(str(library), Path("/h"))
    assert hook.refusal(node, device, [tenant("1", 500)], tenant("2", 500)) is None
    assert "has 0.5 of a GPU left" in str(hook.refusal(node, device, [tenant("1", 500)], tenant("2", 600)))
    assert "split over devices" in str(hook.refusal(node, device, [], tenant("1", 600, alone=False)))


@pytest.mark.parametrize(("there", "means"), [(True, Means.HOOK), (False, Means.EXCLUSIVE)])
def test_without_the_library_devices_are_given_whole_and_the_reason_is_told(
    device: Device, node: Node, library: Path, there: bool, means: Means
) -> None:
    if not there:
        library.unlink()
    sharing = NvidiaSharing(Host(library.parent, Settings(hook=str(library)), described=True, by_root=False))
    arrangement = Arrangement((("*", Means.HOOK),), unhooked=sharing.unhooked)
    whole = replace(node, devices=(device,))
    assert arrangement.node(whole).devices[0].means is means
    told = () if there else (f"GPU 0: the library {library} cannot be read; it is allocated whole",)
    assert arrangement.refusals(whole) == told


def test_other_makers_have_none(device: Device) -> None:
    assert AmdSharing().unhooked(device) is not None
