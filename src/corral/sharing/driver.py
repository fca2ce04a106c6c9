"""What every means of sharing a device must answer, and do."""

from collections.abc import Sequence
from typing import Protocol

from corral.model.device import Device, Node
from corral.model.means import Enforcement, Means
from corral.model.tenant import Tenant
from corral.model.units import MILLI_PER_DEVICE, format_share


class SharingDriver(Protocol):
    """One means of sharing. The first three answers are pure; `prepare` and `release` act on the machine.

    Where they wait for programs of NVIDIA's, each bounded in time, `slow` says so.
    """

    means: Means
    slow: bool

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        """Why the newcomer may not join those on the device, for a person; None when it may.

        What the driver would not tell (compute capability, CUDA version, MIG mode) counts against it.
        """
        ...

    def enforcement(self) -> Enforcement:
        """What holds a job to its grant."""
        ...

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        """Variables for the job besides those that make its devices visible, sorted by name."""
        ...

    def prepare(self, device: Device) -> None:
        """Make the device ready before its first tenant starts; harmless when it is. Raises BackendFailed."""
        ...

    def release(self, device: Device) -> None:
        """Undo `prepare` after the last tenant has gone; harmless when that is done. Raises BackendFailed."""
        ...


def share_refusal(device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
    """Why the newcomer's share does not fit beside the others', None when it does."""
    held_milli = sum(tenant.grant.share_milli for tenant in tenants)
    if held_milli + newcomer.grant.share_milli <= MILLI_PER_DEVICE:
        return None
    wanted, free = format_share(newcomer.grant.share_milli), format_share(MILLI_PER_DEVICE - held_milli)
    return f"{device.uuid} has {free} of itself left and {wanted} was asked for"
