"""Choosing the source of devices: the first whose driver answers. A host may have none."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from corral.clock import Clock
from corral.model.device import DeviceSample, Node
from corral.model.errors import BackendFailed
from corral.ports.telemetry import Source
from corral.telemetry.host import host_node

logger = logging.getLogger(__name__)

Labels = Mapping[str, str]
_LOOK_AGAIN_S = 30.0


def _open_nvml(clock: Clock, labels: Labels) -> Source:
    from corral.telemetry.nvml import open_nvml

    return open_nvml(clock, labels)


def _open_nvidia_smi(clock: Clock, labels: Labels) -> Source:
    from corral.telemetry.nvidia_smi import open_nvidia_smi

    return open_nvidia_smi(clock, labels)


DRIVERS: tuple[tuple[str, Callable[[Clock, Labels], Source]], ...] = (
    ("NVML", _open_nvml),
    ("nvidia-smi", _open_nvidia_smi),
)
"""Sources by preference. Each opens with a driver that answered, or raises BackendFailed saying why not."""


def discover(
    clock: Clock,
    *,
    mock: Path | None = None,
    allocated: Callable[[], Mapping[str, int]] = dict,
    labels: Labels | None = None,
    node: str | None = None,
) -> Source:
    """The source for this host: the mock file if one is given, else whichever driver answers, once it is asked.

    `node` is which of the file's nodes this is, None where it has but one. `allocated` tells the milli-GPU that jobs
    have of each device, for mock devices whose load follows the jobs.
    Raises Refused when the mock file is bad. No driver is called yet: that may hang.
    """
    if mock is not None:
        from corral.telemetry.mock import MockSource

        return MockSource(mock, clock, allocated=allocated, labels=labels, node=node)
    return AnyDriver(clock, labels=labels)


class AnyDriver:
    """The first of `DRIVERS` that answers. While none does, the host has no devices and runs CPU jobs.

    A driver that comes up later is found. `reason` says, for a person, why there are no devices; None when there are.
    """

    def __init__(self, clock: Clock, *, labels: Labels | None = None) -> None:
        self.name = "none"
        self.reason: str | None = None
        self._clock = clock
        self._labels = labels or {}
        self._found: Source | None = None
        self._looked_at: float | None = None

    def node(self) -> Node:
        """The host, with devices as soon as a driver answers."""
        if self._found is None:
            self._look()
        return host_node(labels=self._labels) if self._found is None else self._found.node()

    @property
    def unopened(self) -> tuple[str, ...]:
        """Devices that the driver counts and that cannot be opened, in words, where it tells."""
        found: tuple[str, ...] = getattr(self._found, "unopened", ())
        return found

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """Samples of the devices, none while there is no driver."""
        return () if self._found is None else self._found.sample(uuids)

    def close(self) -> None:
        """Close the session with the driver."""
        if self._found is not None:
            self._found.close()

    def _look(self) -> None:
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < _LOOK_AGAIN_S:
            return
        first_look, self._looked_at = self._looked_at is None, now
        self._found, reasons = _first_that_answers(self._clock, self._labels)
        if self._found is not None:
            self.name, self.reason = self._found.name, None
            logger.info("reading GPUs through %s", self.name)
            return
        self.reason = f"no GPU can be read on this machine: {'; '.join(reasons)}"
        if first_look:
            logger.warning("%s", self.reason)


def _first_that_answers(clock: Clock, labels: Labels) -> tuple[Source | None, list[str]]:
    reasons = []
    for name, open_source in DRIVERS:
        try:
            return open_source(clock, labels), []
        except BackendFailed as error:
            reasons.append(f"{name}: {error}")
    return None, reasons
