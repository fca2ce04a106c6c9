"""The Protocol of a means of sharing a device: implement it to add a means."""

from collections.abc import Sequence
from typing import Protocol

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.placing.tenant import Tenant
from corral.core.model.units import MILLI_PER_DEVICE, format_share


class SharingDriver(Protocol):
    """One means of sharing. `prepare` and `release` act on the machine; the other methods are pure.

    `slow` says whether these two wait for programs of the vendor, each of which has a time limit.
    """

    means: Means
    slow: bool

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        """A sentence on why the newcomer may not join the tenants of the device; None if it may.

        A value that the driver does not report (compute capability, CUDA version, MIG mode) counts as not sufficient.
        """
        ...

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        """Variables for the job besides those that make its devices visible, sorted by name."""
        ...

    def prepare(self, device: Device) -> None:
        """Prepare the device before its first tenant starts; may be repeated. Raises BackendFailed."""
        ...

    def release(self, device: Device) -> None:
        """Undo `prepare` after the last tenant has ended; may be repeated. Raises BackendFailed."""
        ...


def share_refusal(device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
    """A sentence if the newcomer's share does not fit beside those of the tenants; None if it fits."""
    allocated_milli = sum(tenant.grant.share_milli for tenant in tenants)
    if allocated_milli + newcomer.grant.share_milli <= MILLI_PER_DEVICE:
        return None
    wanted, free = format_share(newcomer.grant.share_milli), format_share(MILLI_PER_DEVICE - allocated_milli)
    return f"{device.uuid} has {free} of a GPU left, and {wanted} was asked for"
