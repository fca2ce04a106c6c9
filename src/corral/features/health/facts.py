"""The facts of the history of devices' health."""

from dataclasses import dataclass

from corral.core.model.devices.health import Health
from corral.core.model.fact import Fact

MOST_NOTES = 50
"""The changes that are kept of each device; a newer one takes the place of the oldest."""


@dataclass(frozen=True, slots=True)
class HealthNoted(Fact):
    """A change of a device's health, for its history. It follows from the change itself.

    Attributes:
        number: its place among the kept changes of the device.
        state, reason: as of the change.
        evidence: the signs behind it, each in a sentence.
    """

    uuid: str
    number: int
    state: Health
    reason: str
    evidence: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The place of the change in the history."""
        return f"health history of device {self.uuid}, {self.number}"
