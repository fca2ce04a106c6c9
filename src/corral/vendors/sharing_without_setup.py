"""The means of sharing that need no setup of a device: whole, by time slices, by hardware slices."""

from collections.abc import Callable, Sequence

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.placing.tenant import Tenant
from corral.core.model.units import MILLI_PER_DEVICE, format_share
from corral.vendors.sharing_driver import share_refusal


class WithoutSetup:
    """A means of sharing without setup of the device: jobs create no slices, and existing slices stay for the
    next job.
    """

    slow = False

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        return ()

    def prepare(self, device: Device) -> None:
        """Do nothing."""

    def release(self, device: Device) -> None:
        """Do nothing."""


class Exclusive(WithoutSetup):
    """Sharing with one tenant, which has the whole device."""

    means = Means.EXCLUSIVE

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        if newcomer.grant.share_milli < MILLI_PER_DEVICE:
            share = format_share(newcomer.grant.share_milli)
            return f"{device.uuid} is allocated only as a whole, not {share} of it; ask for --gpus 1"
        if tenants:
            return f"{device.uuid} is exclusive, and job {tenants[0].job_id} has it"
        return None


class Timeslice(WithoutSetup):
    """Sharing by time slices: the tenants take turns on the device. Their shares together are at most the whole device.

    The driver enforces no limits; the memory guard watches the memory of the jobs.
    """

    means = Means.TIMESLICE

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        return share_refusal(device, tenants, newcomer)


class Slices(WithoutSetup):
    """Sharing by slices, with one tenant for each slice. A tenant's grant names the slice; `device` is the device that
    contains it.

    `unsliced` returns why a device without slices has none, and how an administrator changes that.
    """

    means = Means.MIG

    def __init__(self, unsliced: Callable[[Device], str]) -> None:
        self._unsliced = unsliced

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        if not device.mig_enabled:
            return self._unsliced(device)
        uuid = newcomer.grant.uuid
        if all(partition.uuid != uuid for partition in device.partitions):
            offered = ", ".join(sorted({partition.profile for partition in device.partitions})) or "none"
            return f"{device.uuid} has no slice {uuid}; it offers {offered}"
        if newcomer.grant.share_milli < MILLI_PER_DEVICE:
            share = format_share(newcomer.grant.share_milli)
            return f"slice {uuid} is allocated only as a whole, not {share} of it; ask for a smaller profile"
        holder = next((tenant for tenant in tenants if tenant.grant.uuid == uuid), None)
        return None if holder is None else f"job {holder.job_id} has slice {uuid}"
