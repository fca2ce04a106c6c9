"""The list of vendors: Corral's own, then those that packages register in the entry point group `corral.vendors`.

Every entry is a `corral.vendors.vendor.Vendor`.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points

from corral.core.model.devices.device import Device
from corral.core.model.errors import Refused
from corral.vendors.amd import AMD
from corral.vendors.nvidia import NVIDIA
from corral.vendors.vendor import Vendor

GROUP = "corral.vendors"

_OWN = (NVIDIA, AMD)


@cache
def vendors() -> Mapping[str, Vendor]:
    """All vendors by name, in the order in which their drivers are asked for devices.

    Raises Refused for an entry that cannot be loaded, is not a vendor, or has the name of another vendor.
    """
    known = {vendor.name: vendor for vendor in _OWN}
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            vendor = entry.load()
        except Exception as error:
            raise Refused(f"the vendor {entry.name!r} of {entry.value} cannot be loaded: {error}") from error
        if not isinstance(vendor, Vendor):
            raise Refused(f"the vendor {entry.name!r} of {entry.value} is no corral.vendors.vendor.Vendor")
        if vendor.name in known:
            raise Refused(f"the vendor {entry.name!r} of {entry.value} has the name of another, {vendor.name}")
        known[vendor.name] = vendor
    return known


def vendor_named(name: str) -> Vendor:
    """The vendor of this name. An unknown name gives the first vendor: the vendor may have been removed."""
    known = vendors()
    return known.get(name) or next(iter(known.values()))


def vendor_of(device: Device) -> Vendor:
    """The maker of a device."""
    return vendor_named(device.vendor)


def vendors_of(devices: Iterable[Device]) -> tuple[Vendor, ...]:
    """The makers of these devices, each once."""
    return tuple(vendor_named(name) for name in dict.fromkeys(device.vendor for device in devices))


@cache
def application_errors() -> frozenset[int]:
    """The numbers of driver errors that a program causes, and that do not show a faulty device."""
    return frozenset().union(*(vendor.signs.application_errors for vendor in vendors().values()))
