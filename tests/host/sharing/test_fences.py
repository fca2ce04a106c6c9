"""A job may open its own GPU's devices, no other GPU's, and what is no GPU stays as it was."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import Device, Node
from corral.host.sharing.fences import Fences, gpu_numbers, without
from corral.vendors.vendor import DeviceNumbers

FEW = st.integers(0, 30)
RANGES = st.lists(
    st.builds(lambda major, a, b: DeviceNumbers(major, min(a, b), max(a, b)), st.integers(1, 2), FEW, FEW)
)
NVIDIA = DeviceNumbers(195, 0, 253)


def each(ranges: tuple[DeviceNumbers, ...] | list[DeviceNumbers]) -> set[tuple[int, int]]:
    return {(major, minor) for major, first, last in ranges for minor in range(first, last + 1)}


@given(RANGES, RANGES)
def test_what_is_closed_is_all_that_is_a_gpu_and_not_the_jobs_own(
    numbers: list[DeviceNumbers], own: list[DeviceNumbers]
) -> None:
    left = without(numbers, own)
    assert each(left) == each(numbers) - each(own)
    assert list(left) == sorted(left)
    assert sum(last - first + 1 for _, first, last in left) == len(each(left))


def gpu(index: int, *files: str, **more: object) -> Device:
    return Device(f"GPU-{index}", index, "NVIDIA A100", 81920, files=files, **more)  # type: ignore[arg-type]


def test_a_job_opens_its_own_gpu_and_one_without_gpus_none() -> None:
    found = gpu_numbers([gpu(0, "/dev/nvidia9"), gpu(1, "/dev/nvidia3")], Path("/nowhere"))
    assert found.closed_to(()) == (NVIDIA,)
    assert each(found.closed_to(["GPU-1"])) == each([NVIDIA]) - {(195, 3)}
    assert each(found.closed_to(["GPU-0", "GPU-1"])) == each([NVIDIA]) - {(195, 3), (195, 9)}


def test_a_job_whose_device_cannot_be_told_from_others_is_not_fenced() -> None:
    found = gpu_numbers([gpu(0, "/dev/nvidia0"), gpu(1), gpu(2, "/dev/nvidia2", "/dev/no-such-file")], Path("/nowhere"))
    for uuid in ("GPU-1", "GPU-2", "GPU-gone"):
        assert found.closed_to([uuid]) == found.closed_to(["GPU-0", uuid]) == ()


def test_a_device_file_that_exists_has_the_number_that_it_has() -> None:
    found = gpu_numbers([gpu(0, "/dev/full")], Path("/nowhere"))
    full = os.stat("/dev/full").st_rdev
    assert (os.major(full), os.minor(full)) in each(found.closed_to(()))
    assert (os.major(full), os.minor(full)) not in each(found.closed_to(["GPU-0"]))


def test_no_file_but_a_character_device_stands_for_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert gpu_numbers([gpu(0, str(tmp_path / "file"))], Path("/nowhere")).closed_to(["GPU-0"]) == ()


@pytest.fixture
def drm(tmp_path: Path) -> Path:
    """As the kernel shows the DRM devices of two GPUs and of a screen of the mainboard."""
    (tmp_path / "drm").mkdir()
    for name, number, bus_id, driver in (
        ("card0", "226:0", "0000:01:00.0", "ast"),
        ("card1", "226:1", "0000:3b:00.0", "nvidia"),
        ("renderD128", "226:128", "0000:3b:00.0", "nvidia"),
        ("renderD129", "226:129", "0000:86:00.0", "amdgpu"),
    ):
        device = tmp_path / bus_id
        device.mkdir(exist_ok=True)
        if not (device / "driver").is_symlink():
            (device / "driver").symlink_to(f"../drivers/{driver}")
        (tmp_path / "drm" / name).mkdir()
        (tmp_path / "drm" / name / "dev").write_text(f"{number}\n")
        (tmp_path / "drm" / name / "device").symlink_to(device)
    (tmp_path / "drm" / "version").write_text("drm 1.1.0\n")
    return tmp_path / "drm"


def test_the_drm_devices_of_a_gpu_go_with_it_and_those_of_a_screen_are_not_touched(drm: Path) -> None:
    own = gpu(0, "/dev/nvidia0", pci_bus_id="00000000:3B:00.0")
    found = gpu_numbers([own], drm)
    assert each(found.closed_to(())) - each([NVIDIA]) == {(226, 1), (226, 128), (226, 129)}
    assert each(found.closed_to(["GPU-0"])) - each([NVIDIA]) == {(226, 129)}


def test_a_slice_has_no_drm_devices_of_its_own(drm: Path) -> None:
    part = gpu(1, "/dev/nvidia0", pci_bus_id="00000000:3B:00.0", parent_uuid="GPU-0", mig_profile="1g.10gb")
    assert (226, 128) in each(gpu_numbers([part], drm).closed_to(["GPU-1"]))


def test_devices_that_a_driver_makes_later_are_closed_after_a_minute(drm: Path) -> None:
    at = [0.0]
    hidden = (drm / "renderD129").rename(drm.parent / "renderD129")
    fences = Fences(lambda: None, drm, lambda: at[0])
    assert (226, 129) not in each(fences.closed_to(()))
    hidden.rename(drm / "renderD129")
    at[0] = 61.0
    assert (226, 129) in each(fences.closed_to(()))


def test_an_inventory_that_changes_changes_what_is_closed() -> None:
    nodes = [None, Node("here", (gpu(0, "/dev/full"),), 1000, 1024)]
    fences = Fences(lambda: nodes[0], Path("/nowhere"))
    assert fences.closed_to(()) == (NVIDIA,)
    nodes.pop(0)
    assert len(fences.closed_to(())) == 2
    assert fences.closed_to(["GPU-0"]) == (NVIDIA,)
