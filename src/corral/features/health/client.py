"""The health of devices: list it, trust and test devices, collect the evidence."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.features.health.answers import Evidence, HealthList, HealthRow


class DeviceHealths:
    """Lists sick devices, and lets administrators trust or test them. A device is named as in `Devices`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> "HealthList":
        """The devices that are sick, or were sick of late."""
        from corral.features.health.answers import HealthList

        return from_answer(HealthList, self._transport.get("/device-health"))

    def trust(self, device: str | int) -> "HealthRow":
        """Let jobs start on it whatever its signs say. A sign that lasts counts again after it was gone once."""
        from corral.features.health.answers import HealthRow

        return from_answer(HealthRow, self._transport.post(_path(device, "trust")))

    def probe(self, device: str | int) -> "HealthRow":
        """Have it tested and watched, as after a fault."""
        from corral.features.health.answers import HealthRow

        return from_answer(HealthRow, self._transport.post(_path(device, "probe")))

    def evidence(self, device: str | int) -> "Evidence":
        """All that is known of its health, as a vendor asks for it."""
        from corral.features.health.answers import Evidence

        return from_answer(Evidence, self._transport.get(_path(device, "evidence")))


def _path(device: str | int, what: str) -> str:
    return f"/devices/{quote(str(device), safe='')}/{what}"
