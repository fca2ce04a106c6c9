"""Jobs take turns on the device. The driver enforces no limits; the memory guard watches the memory of the jobs."""

from collections.abc import Sequence

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.placing.tenant import Tenant
from corral.vendors.sharing_driver import share_refusal


class Timeslice:
    """Tenants up to the sum of shares that the device has."""

    means = Means.TIMESLICE
    slow = False

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        return share_refusal(device, tenants, newcomer)

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        return ()

    def prepare(self, device: Device) -> None:
        """Nothing to do: a device switches between jobs by itself."""

    def release(self, device: Device) -> None:
        """Nothing to undo."""
