"""The devices that a node offers to its kubelet, by resource. Does no I/O.

A device is offered under one resource alone: whole, as slices, or as parts by the means that the site sets for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.devices.health import Verdict
from corral.core.model.units import MILLI_PER_DEVICE
from corral.vendors.registry import vendor_of
from corral.vendors.vendor import MemoryResource, SharedBy

UNITS = 100
"""The parts of a shared device. One part is a hundredth."""

MILLI_PER_UNIT = MILLI_PER_DEVICE // UNITS
_PART = "::"


@dataclass(frozen=True, slots=True)
class SeenDevices:
    """The node with its devices, arranged as its site shares them, and the newest sample of each device."""

    node: Node
    samples: Mapping[str, DeviceSample]


@dataclass(frozen=True, slots=True)
class OfferedDevice:
    """A device, or a slice of one. `illness` is why it is not to be given now, None if nothing is wrong with it."""

    device: Device
    illness: str | None = None

    @property
    def uuid(self) -> str:
        """The UUID of the device or slice."""
        return self.device.uuid


@dataclass(frozen=True)
class Offer:
    """The devices of one resource. `units` are the parts of each: 1 if it is given whole, else `UNITS`."""

    resource: str
    units: int
    devices: tuple[OfferedDevice, ...]
    memory: MemoryResource | None = None

    @cached_property
    def by_uuid(self) -> Mapping[str, OfferedDevice]:
        """The devices by UUID."""
        return {one.uuid: one for one in self.devices}

    @cached_property
    def all_ids(self) -> frozenset[str]:
        """The ids of all devices and parts."""
        return frozenset(one_id for one in self.devices for one_id in self.ids(one.uuid))

    def ids(self, uuid: str) -> tuple[str, ...]:
        """The ids under which the kubelet knows a device or its parts."""
        return (uuid,) if self.units == 1 else tuple(f"{uuid}{_PART}{number}" for number in range(self.units))

    @property
    def memory_amount(self) -> int:
        """The memory of all devices together, in units of the memory resource; 0 without one."""
        if self.memory is None:
            return 0
        return sum((one.device.memory_mib or 0) // self.memory.unit_mib for one in self.devices)


def uuid_of(device_id: str) -> str:
    """The device of an id."""
    return device_id.partition(_PART)[0]


def units_by_device(ids: Sequence[str]) -> dict[str, int]:
    """Return the number of ids of each device, by UUID."""
    found: dict[str, int] = {}
    for one in ids:
        found[uuid_of(one)] = found.get(uuid_of(one), 0) + 1
    return found


def offers(node: Node, samples: Mapping[str, DeviceSample]) -> tuple[Offer, ...]:
    """The node's offers, sorted by resource. The means and the slices of its devices are those that its site sets.

    A device without a sample is ill.
    """
    of_resource: dict[str, list[OfferedDevice]] = {}
    shared: dict[str, SharedBy] = {}
    for device, resource, means in _offered(node):
        of_resource.setdefault(resource, []).append(OfferedDevice(device, _illness(samples.get(device.uuid))))
        if means is not None:
            shared[resource] = means
    return tuple(
        Offer(resource, UNITS, tuple(devices), shared[resource].memory)
        if resource in shared
        else Offer(resource, 1, tuple(devices))
        for resource, devices in sorted(of_resource.items())
    )


def _offered(node: Node) -> Iterator[tuple[Device, str, SharedBy | None]]:
    for device in node.devices:
        names = vendor_of(device).kubernetes
        if device.mig_profile is not None:
            yield device, names.of_slice(device.mig_profile), None
        elif not device.mig_enabled:
            by = names.shared.get(device.means)
            yield device, names.gpu if by is None else by.cores, by


def _illness(sample: DeviceSample | None) -> str | None:
    if sample is None:
        return "it has not been read yet"
    grave = (sign.detail for sign in sample.signs if sign.lasts and sign.verdict is Verdict.QUARANTINE)
    return sample.fault or sample.illness or next(grave, None)
