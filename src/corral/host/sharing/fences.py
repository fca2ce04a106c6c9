"""The character devices that a job must not open: those of all GPUs of this host but its own.

What belongs to no single GPU, such as the control file of a driver, and /dev/null, stays as it was.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.core.model.devices.device import Device, Node
from corral.vendors.registry import vendor_of, vendors
from corral.vendors.vendor import DeviceNumbers

DRM_DEVICES = Path("/sys/class/drm")
_AGE_S = 60.0


@dataclass(frozen=True, slots=True)
class GpuNumbers:
    """The numbers of the GPUs of a host: of each device that Corral allocates, and of all, also unknown ones.

    A device without numbers cannot be told from others. Its job is not fenced, because it could not use its own.
    """

    of_device: dict[str, tuple[DeviceNumbers, ...]]
    all: tuple[DeviceNumbers, ...]

    def closed_to(self, uuids: Collection[str]) -> tuple[DeviceNumbers, ...]:
        """Return the numbers that a job with these devices must not open, () if it cannot be fenced."""
        own = [self.of_device.get(uuid, ()) for uuid in uuids]
        return without(self.all, [numbers for one in own for numbers in one]) if all(own) else ()


class Fences:
    """The numbers that the jobs of a host must not open, by its inventory and its vendors."""

    def __init__(
        self,
        inventory: Callable[[], Node | None],
        drm_devices: Path = DRM_DEVICES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inventory = inventory
        self._drm_devices = drm_devices
        self._monotonic = monotonic
        self._last: tuple[Node | None, float, GpuNumbers] | None = None

    def closed_to(self, uuids: Collection[str]) -> tuple[DeviceNumbers, ...]:
        """Return the numbers that a job with these devices must not open, () if it cannot be fenced."""
        node, now, last = self._inventory(), self._monotonic(), self._last
        # A driver may make more devices of a GPU that is known already.
        if last is None or last[0] is not node or now - last[1] >= _AGE_S:
            last = self._last = node, now, gpu_numbers(() if node is None else node.devices, self._drm_devices)
        return last[2].closed_to(uuids)


def gpu_numbers(devices: Sequence[Device], drm_devices: Path = DRM_DEVICES) -> GpuNumbers:
    """Return the numbers of these devices, and of all GPUs of this host."""
    drm = tuple(_drm_devices(drm_devices))
    of_device = {device.uuid: _numbers(device, drm) for device in devices}
    known = (numbers for own in of_device.values() for numbers in own)
    others = (numbers for vendor in vendors().values() for numbers in vendor.files.numbers())
    return GpuNumbers(of_device, without((*known, *others, *(one.numbers for one in drm)), ()))


def without(numbers: Iterable[DeviceNumbers], own: Collection[DeviceNumbers]) -> tuple[DeviceNumbers, ...]:
    """Return the numbers that are in `numbers` and not in `own`, in order and without overlap."""
    left: list[DeviceNumbers] = []
    for major, first, last in sorted(numbers):
        if left and left[-1].major == major and first <= left[-1].last + 1:
            left[-1] = left[-1]._replace(last=max(last, left[-1].last))
        else:
            left.append(DeviceNumbers(major, first, last))
    for hole in own:
        left = [part for one in left for part in _cut(one, hole)]
    return tuple(left)


def _cut(whole: DeviceNumbers, hole: DeviceNumbers) -> Iterator[DeviceNumbers]:
    if whole.major != hole.major or hole.last < whole.first or hole.first > whole.last:
        yield whole
        return
    if whole.first < hole.first:
        yield whole._replace(last=hole.first - 1)
    if hole.last < whole.last:
        yield whole._replace(first=hole.last + 1)


def _numbers(device: Device, drm: Collection["_DrmDevice"]) -> tuple[DeviceNumbers, ...]:
    """Return the numbers of a device, () if one of its files is unknown. A slice has no DRM devices of its own."""
    of_files = [_number_of(device, file) for file in device.files]
    found = [numbers for numbers in of_files if numbers is not None]
    if not found or len(found) < len(of_files):
        return ()
    bus_id = None if device.parent_uuid is not None or device.pci_bus_id is None else device.pci_bus_id.lower()
    # The driver writes the PCI domain with eight digits, the kernel with four.
    return *found, *(one.numbers for one in drm if bus_id is not None and bus_id.endswith(one.bus_id))


def _number_of(device: Device, file: str) -> DeviceNumbers | None:
    try:
        found = os.stat(file)
    except OSError:
        return vendor_of(device).files.number_of(file)
    if not stat.S_ISCHR(found.st_mode):
        return None
    return DeviceNumbers(os.major(found.st_rdev), os.minor(found.st_rdev), os.minor(found.st_rdev))


@dataclass(frozen=True, slots=True)
class _DrmDevice:
    bus_id: str
    numbers: DeviceNumbers


def _drm_devices(drm_devices: Path) -> Iterator[_DrmDevice]:
    """Yield the DRM devices of vendors' GPUs: they give access to a GPU beside the vendor's own files."""
    drivers = {driver for vendor in vendors().values() for driver in vendor.files.kernel_drivers}
    for entry in sorted(drm_devices.glob("*/dev")):
        device = entry.parent / "device"
        try:
            if os.path.basename(os.readlink(device / "driver")) in drivers:
                major, minor = map(int, entry.read_text().split(":"))
                yield _DrmDevice(os.path.basename(os.path.realpath(device)), DeviceNumbers(major, minor, minor))
        except (OSError, ValueError):
            continue
