"""The character devices of NVIDIA's GPUs and MIG slices, by what the driver says in /proc.

Every process that uses a GPU also opens files that belong to no single one, such as /dev/nvidiactl and /dev/nvidia-uvm.
They are not among the files of a device.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from corral.vendors.nvidia.visible_devices import in_container
from corral.vendors.vendor import DeviceFiles, DeviceNumbers

_PROC = Path("/proc")
_GPU, _CAPABILITY = "/dev/nvidia", "/dev/nvidia-caps/nvidia-cap"
_MAJOR = 195
"""The major number that NVIDIA has for good; its other one is given out as the driver is loaded."""
_LAST_GPU = 253
"""The last minor number of a GPU; those above belong to files of no single GPU."""
_OF_SLICE = re.compile(r"^gpu\d+/gi\S* (\d+)$", re.MULTILINE)


def gpu_files(minor: int | None) -> tuple[str, ...]:
    """The device file of a GPU with this minor number."""
    return () if minor is None else (f"{_GPU}{minor}",)


def minor_of(pci_bus_id: str | None, proc: Path = _PROC) -> int | None:
    """The minor number of the GPU at this address; None if the driver does not say it."""
    # NVML writes the PCI domain with eight digits, and the driver with four.
    domain, _, address = (pci_bus_id or "").lower().partition(":")
    information = _text(proc / f"driver/nvidia/gpus/{domain[-4:]}:{address}/information")
    found = re.search(r"^Device Minor:\s*(\d+)", information, re.MULTILINE)
    return None if found is None else int(found[1])


def slice_files(minor: int | None, gpu_instance: int, compute_instance: int, proc: Path = _PROC) -> tuple[str, ...]:
    """The device files of a MIG slice: that of its GPU, and those that admit to its two instances; () if unknown."""
    instance = proc / f"driver/nvidia/capabilities/gpu{minor}/mig/gi{gpu_instance}"
    admitting = [_admitting(instance / "access"), _admitting(instance / f"ci{compute_instance}/access")]
    if minor is None or None in admitting:
        return ()
    return *gpu_files(minor), *(f"{_CAPABILITY}{number}" for number in admitting)


def _admitting(capability: Path) -> int | None:
    found = re.search(r"^DeviceFileMinor:\s*(\d+)", _text(capability), re.MULTILINE)
    return None if found is None else int(found[1])


def numbers(proc: Path = _PROC) -> Sequence[DeviceNumbers]:
    """The numbers of all GPUs, and of the files that admit to slices, also to slices that do not exist yet."""
    gpus = DeviceNumbers(_MAJOR, 0, _LAST_GPU)
    major = _capabilities_major(proc)
    minors = [int(minor) for minor in _OF_SLICE.findall(_text(proc / "driver/nvidia-caps/mig-minors"))]
    return (gpus,) if major is None or not minors else (gpus, DeviceNumbers(major, min(minors), max(minors)))


def number_of(file: str, proc: Path = _PROC) -> DeviceNumbers | None:
    """The number of a GPU's or a slice's device file. The driver may make the file only when it is first used."""
    for prefix, major in ((_CAPABILITY, _capabilities_major(proc)), (_GPU, _MAJOR)):
        minor = file.removeprefix(prefix)
        if major is not None and minor != file and minor.isdecimal():
            return DeviceNumbers(major, int(minor), int(minor))
    return None


def _capabilities_major(proc: Path) -> int | None:
    found = re.search(r"^\s*(\d+) nvidia-caps$", _text(proc / "devices"), re.MULTILINE)
    return None if found is None else int(found[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


_OF_ALL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")

FILES = DeviceFiles(numbers, number_of, _OF_ALL, kernel_drivers=("nvidia",), in_container=in_container)
