"""Whole devices: no other job is on the device, and the job has all of it."""

from collections.abc import Sequence

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.placing.tenant import Tenant
from corral.core.model.units import MILLI_PER_DEVICE, format_share


class Exclusive:
    """One tenant with the whole device."""

    means = Means.EXCLUSIVE
    slow = False

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        if newcomer.grant.share_milli < MILLI_PER_DEVICE:
            share = format_share(newcomer.grant.share_milli)
            return f"{device.uuid} is allocated only as a whole, not {share} of it; ask for --gpus 1"
        if tenants:
            return f"{device.uuid} is exclusive, and job {tenants[0].job_id} has it"
        return None

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        return ()

    def prepare(self, device: Device) -> None:
        """Nothing to do: no other job gets the device."""

    def release(self, device: Device) -> None:
        """Nothing to undo."""
