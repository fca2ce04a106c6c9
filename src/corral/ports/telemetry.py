"""What reads the devices of a host, and what control hears of it."""

from collections.abc import Sequence
from typing import Protocol

from corral.model.device import DeviceSample, Node
from corral.model.fact import Observation


class Source(Protocol):
    """Discovers and samples the devices of this host. Calls may be slow or hang: they run on the sampler's thread."""

    name: str

    def node(self) -> Node:
        """The host's inventory. Raises BackendFailed when the driver does not answer."""
        ...

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """One sample of each device, or of those named; a device that cannot be read has its `fault` set."""
        ...

    def close(self) -> None:
        """Let the driver session go."""
        ...


class Telemetry(Protocol):
    """What control needs of the sampler."""

    def latest(self) -> dict[str, DeviceSample]:
        """The last sample of each device by UUID, however old."""
        ...

    def refresh(self, uuids: Sequence[str], timeout_s: float) -> tuple[Observation, ...]:
        """Sample these devices now; a device that does not answer in time comes back unreadable."""
        ...
