"""The device files of NVIDIA's GPUs and slices, and their numbers, are what the driver says."""

import os
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.vendors.nvidia.device_files import gpu_files, minor_of, number_of, numbers, slice_files
from corral.vendors.nvidia.nvml import NvmlSource, open_nvml
from corral.vendors.vendor import DeviceNumbers
from tests.vendors.nvidia.nvml_stub import NvmlStub

MINORS = """\
config 1
monitor 2
gpu0/gi0/access 3
gpu0/gi0/ci0/access 4
gpu0/gi7/access 66
gpu0/gi7/ci0/access 67
gpu31/gi14/ci7/access 4351
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """As a driver with MIG writes it."""
    (tmp_path / "devices").write_text(
        "Character devices:\n  1 mem\n195 nvidia\n234 nvidia-caps\n\nBlock devices:\n  7 loop\n"
    )
    (tmp_path / "driver/nvidia-caps").mkdir(parents=True)
    (tmp_path / "driver/nvidia-caps/mig-minors").write_text(MINORS)
    instance = tmp_path / "driver/nvidia/capabilities/gpu2/mig/gi7"
    (instance / "ci0").mkdir(parents=True)
    for place, minor in ((instance, 66), (instance / "ci0", 67)):
        (place / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    return tmp_path


def test_all_gpus_and_all_slices_have_numbers_also_those_that_are_not_there_yet(proc: Path, tmp_path: Path) -> None:
    assert numbers(proc) == (DeviceNumbers(195, 0, 253), DeviceNumbers(234, 3, 4351))
    assert numbers(tmp_path / "without") == (DeviceNumbers(195, 0, 253),)


def test_a_slice_needs_its_gpu_and_both_of_its_instances(proc: Path) -> None:
    assert slice_files(2, 7, 0, proc) == (
        "/dev/nvidia2",
        "/dev/nvidia-caps/nvidia-cap66",
        "/dev/nvidia-caps/nvidia-cap67",
    )


def test_the_driver_says_the_minor_number_of_a_gpu_by_its_address(proc: Path) -> None:
    gpu = proc / "driver/nvidia/gpus/0000:3b:00.0"
    gpu.mkdir(parents=True)
    (gpu / "information").write_text("Model: \t\t NVIDIA A100\nDevice Minor: \t 5\nGPU Excluded:\t No\n")
    assert minor_of("00000000:3B:00.0", proc) == 5
    assert minor_of("00000000:41:00.0", proc) is minor_of(None, proc) is None


def test_where_the_driver_does_not_say_a_file_none_is_made_up(proc: Path) -> None:
    assert slice_files(2, 7, 1, proc) == slice_files(None, 7, 0, proc) == gpu_files(None) == ()


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("/dev/nvidia12", DeviceNumbers(195, 12, 12)),
        ("/dev/nvidia-caps/nvidia-cap66", DeviceNumbers(234, 66, 66)),
        ("/dev/nvidiactl", None),
        ("/dev/nvidia-uvm", None),
        ("/dev/dri/renderD128", None),
    ],
)
def test_a_file_that_does_not_exist_has_the_number_in_its_name(
    proc: Path, file: str, found: DeviceNumbers | None
) -> None:
    assert number_of(file, proc) == found


def test_nvml_says_which_file_a_gpu_has_and_its_index_does_not(stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("devices 2", "gpu 1 mig 1")
    source = NvmlSource(SystemClock())
    whole, sliced = source.found().devices
    source.close()
    assert (whole.index, whole.files) == (0, ("/dev/nvidia200",))
    assert sliced.files == ("/dev/nvidia199",)
    # The stub's kernel has no files of instances, so its slices cannot be told apart.
    assert [part.files for part in sliced.partitions] == [(), ()]


@pytest.mark.gpu
def test_the_files_of_a_real_gpu_are_there_and_have_the_numbers_in_their_names() -> None:
    source = open_nvml(SystemClock())
    found = source.found().devices
    source.close()
    (gpus, *_) = numbers()
    for device in found:
        (file,) = device.files
        number = os.stat(file).st_rdev
        assert number_of(file) == DeviceNumbers(os.major(number), os.minor(number), os.minor(number))
        assert gpus.first <= os.minor(number) <= gpus.last
        assert minor_of(device.pci_bus_id) == os.minor(number)
