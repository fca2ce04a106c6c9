"""Chooses the source of devices: for each vendor the first driver that answers. A host may have none."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from corral.clock import Clock
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.errors import BackendFailed
from corral.core.ports.telemetry import CARELESS, Care, Source
from corral.host.telemetry.host import host_node, numa_node_of
from corral.vendors.registry import vendors
from corral.vendors.vendor import DriverSource, FoundDevices, NotHere, Vendor

logger = logging.getLogger(__name__)

Labels = Mapping[str, str]
_LOOK_AGAIN_S = 30.0


def discover(
    clock: Clock,
    *,
    mock: Path | None = None,
    allocated: Callable[[], Mapping[str, int]] = dict,
    labels: Labels | None = None,
    node: str | None = None,
    power_limits: Callable[[], Mapping[str, int]] = dict,
) -> Source:
    """Return the source for this host: the mock file if one is given, otherwise the drivers that answer later.

    `node` is the name of this host's node in the file, None if the file has only one. `allocated` returns the milli-GPU
    of each device that jobs hold, for mock devices whose load follows the jobs, and `power_limits` the limits in mW
    that were set on mock devices. Raises Refused for an invalid mock file. No driver is called yet, because the call
    may hang.
    """
    if mock is not None:
        from corral.host.telemetry.mock import MockSource

        return MockSource(mock, clock, allocated=allocated, labels=labels, node=node, power_limits=power_limits)
    return AnyDriver(clock, labels=labels)


class AnyDriver:
    """All drivers of this host. While none answers, the host has no devices and runs only CPU jobs.

    A driver that starts later is found. `reason` explains to users why there are no devices; None if there are. The
    indices of the second vendor's devices follow those of the first.
    """

    def __init__(
        self, clock: Clock, *, labels: Labels | None = None, makers: Mapping[str, Vendor] | None = None
    ) -> None:
        self.reason: str | None = None
        self._clock = clock
        self._labels = labels or {}
        self._makers = vendors() if makers is None else makers
        self._sources: dict[str, DriverSource] = {}
        self._found: dict[str, FoundDevices] = {}
        self._node: Node | None = None
        self._looked_at: float | None = None
        self._care = CARELESS

    @property
    def one_by_one(self) -> bool:
        """Whether no driver needs one long call for whatever is read."""
        return all(source.one_by_one for source in self._sources.values())

    @property
    def name(self) -> str:
        """The names of the drivers in use, such as nvml, or none."""
        return " and ".join(source.name for source in self._sources.values()) or "none"

    def take_care(self, care: Care) -> None:
        """Deal with devices so from now on, also through drivers that are found later."""
        self._care = care
        for source in self._sources.values():
            source.take_care(care)

    def node(self) -> Node:
        """Return the host, with devices once a driver answers. Raises BackendFailed if none answers any more."""
        self._look()
        if not self._sources:
            return host_node(labels=self._labels)
        found = self._read()
        if self._node is None or any(found[name] is not self._found.get(name) for name in found):
            self._found, self._node = found, self._joined(found)
        return self._node

    @property
    def unopened(self) -> tuple[str, ...]:
        """Sentences about devices that a driver counts but cannot open."""
        return tuple(words for source in self._sources.values() for words in source.unopened)

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """Return samples of the devices, none while there is no driver."""
        if uuids is None or len(self._sources) < 2:
            return tuple(sample for source in self._sources.values() for sample in source.sample(uuids))
        vendor_of = {uuid: name for name, found in self._found.items() for uuid in _uuids(found)}
        first = next(iter(self._sources))
        asked = {name: [uuid for uuid in uuids if vendor_of.get(uuid, first) == name] for name in self._sources}
        samples = {
            sample.uuid: sample for name, some in asked.items() if some for sample in self._sources[name].sample(some)
        }
        return tuple(samples[uuid] for uuid in uuids)

    def close(self) -> None:
        """Close the sessions with the drivers."""
        for source in self._sources.values():
            source.close()

    def _read(self) -> dict[str, FoundDevices]:
        """Return the devices of each driver; for one that does not answer now, its last answer."""
        found, failures = {}, []
        for name, source in self._sources.items():
            try:
                found[name] = source.found()
            except BackendFailed as error:
                failures.append(error)
                if name in self._found:
                    found[name] = self._found[name]
        if len(failures) == len(self._sources):
            raise failures[0]
        return found

    def _joined(self, found: Mapping[str, FoundDevices]) -> Node:
        devices: list[Device] = []
        for name, one in found.items():
            after = max((device.index for device in devices), default=-1) + 1
            devices += [
                replace(device, vendor=name, index=device.index + after, numa_node=numa_node_of(device.pci_bus_id))
                for device in one.devices
            ]
        told = next((one for one in found.values() if one.devices), FoundDevices(()))
        return host_node(
            tuple(devices),
            labels=self._labels,
            driver_version=told.driver_version,
            cuda_version=next((one.cuda_version for one in found.values() if one.cuda_version is not None), None),
        )

    def _look(self) -> None:
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < _LOOK_AGAIN_S:
            return
        first_look, self._looked_at = self._looked_at is None, now
        reasons: list[str] = []
        for name, vendor in self._makers.items():
            if name not in self._sources:
                source, why = _first_that_answers(vendor, self._clock, self._care)
                reasons += why
                if source is not None:
                    self._sources[name] = source
                    logger.info("reading GPUs through %s", source.name)
        self.reason = None if self._sources else f"no GPU can be read on this machine: {'; '.join(reasons)}"
        if self.reason is not None and first_look:
            logger.warning("%s", self.reason)


def _uuids(found: FoundDevices) -> list[str]:
    return [uuid for device in found.devices for uuid in (device.uuid, *(part.uuid for part in device.partitions))]


def _first_that_answers(vendor: Vendor, clock: Clock, care: Care) -> tuple[DriverSource | None, list[str]]:
    reasons = []
    for library in vendor.libraries:
        try:
            return library.open(clock, care), []
        except NotHere:
            continue
        except BackendFailed as error:
            reasons.append(f"{library.name}: {error}")
    return None, reasons
