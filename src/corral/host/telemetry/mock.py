"""Mock devices described by a file: for trials, demonstrations and tests on a machine without devices."""

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from corral.clock import Clock
from corral.core.model.devices.device import DeviceSample, Node, Partition
from corral.core.model.devices.vitals import DriverError, ReadFailure, Vitals
from corral.core.model.errors import Refused
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.ports.telemetry import Care
from corral.host.telemetry.host import host_node
from corral.host.telemetry.mock_cluster import ChangingMockFile, MockNode
from corral.host.telemetry.mock_file import Load, MockDevice
from corral.host.telemetry.mock_power import limited

logger = logging.getLogger(__name__)

_HANG_LOOK_S = 0.02
"""The interval at which a call that hangs looks whether the file still says so."""
_STEP_S = 5
"""The time for which a random load keeps its value."""
_BUSY_TEMPERATURE_C = 40
_BUSY_POWER_MW = 250_000
_BUSY_MEMORY = 0.6
_BUSY_BANDWIDTH_PCT = 60


class MockSource:
    """The devices of a `mock-accelerator.toml`, or of one `node` of it. A changed file is read again.

    An invalid change is logged once, and the last valid devices stay. Random loads depend only on the device and the
    clock: the same moment always has the same readings. `allocated` returns the milli-GPU of each device that jobs
    hold, for devices whose load is "follow-jobs". `power_limits` returns the limits in mW that jobs have set. Raises
    Refused if the file is invalid at the start.
    """

    name = "mock"
    one_by_one = True

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        allocated: Callable[[], Mapping[str, int]] = dict,
        labels: Mapping[str, str] | None = None,
        node: str | None = None,
        power_limits: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._path = path
        self._name = node
        self._clock = clock
        self._allocated = allocated
        self._labels = labels
        self._power_limits = power_limits
        self._file = ChangingMockFile(path)
        self._told: dict[str, int] = {}
        self._errors: dict[str, DriverError] = {}
        self._take(self._file.read().node(node))

    def node(self) -> Node:
        """Return this host, with the devices of the file."""
        self._read_again_if_changed()
        if not (limits := self._power_limits()):
            return self._node
        return replace(self._node, devices=tuple(limited(device, limits) for device in self._node.devices))

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """Return the described readings and the current loads."""
        self._read_again_if_changed()
        while self._hangs(uuids):
            time.sleep(_HANG_LOOK_S)
            self._read_again_if_changed()
        devices, slices = self._devices, self._slices
        allocated, limits = self._allocated(), self._power_limits()
        now = self._clock.now()
        return tuple(
            _sample(devices[uuid], now, allocated.get(uuid, 0), limits.get(uuid), self._errors.pop(uuid, None))
            if uuid in devices
            else _sample_slice(*slices[uuid], now)
            if uuid in slices
            else DeviceSample(uuid, now, fault=f"{self._path} no longer describes it")
            for uuid in ([*devices, *slices] if uuids is None else uuids)
        )

    def take_care(self, care: Care) -> None:
        """Do nothing: only a device that is asked for can hang."""

    def _hangs(self, uuids: Sequence[str] | None) -> bool:
        """Return whether a call about any of these devices, or slices of it, hangs now."""
        return self._any_hangs and any(
            mock.hang and (uuids is None or uuid in uuids)
            for uuid, mock in (*self._devices.items(), *((uuid, mock) for uuid, (mock, _) in self._slices.items()))
        )

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _take(self, described: MockNode) -> None:
        box = described.box
        self._devices = {mock.device.uuid: mock for mock in box.devices}
        self._slices = {part.uuid: (mock, part) for mock in box.devices for part in mock.device.partitions}
        self._any_hangs = any(mock.hang for mock in box.devices)
        for mock in box.devices:
            uuid = mock.device.uuid
            if mock.xid and mock.xid != self._told.get(uuid):
                self._errors[uuid] = DriverError(mock.xid, self._clock.now(), mock.xid_pid)
            self._told[uuid] = mock.xid
        host = host_node(
            tuple(mock.device for mock in box.devices),
            labels={**(self._labels or {}), **dict(described.labels)},
            driver_version=box.driver_version,
            cuda_version=box.cuda_version,
        )
        self._node = replace(
            host,
            name=described.name or host.name,
            cpu_milli=host.cpu_milli if described.cpu_milli is None else described.cpu_milli,
            memory_mib=host.memory_mib if described.memory_mib is None else described.memory_mib,
            disk_mib=described.disk_mib or 0,
        )

    def _read_again_if_changed(self) -> None:
        try:
            if (cluster := self._file.read_if_changed()) is not None:
                self._take(cluster.node(self._name))
        except Refused as error:
            logger.warning("%s; the devices it described before are kept", error)


def _sample(
    mock: MockDevice, now: float, allocated_milli: int, limit_mw: int | None, error: DriverError | None
) -> DeviceSample:
    uuid = mock.device.uuid
    errors = () if error is None else (error,)
    if mock.lost:
        fault = "the device is lost: it has fallen off the bus"
        return DeviceSample(uuid, now, fault=fault, failure=ReadFailure.LOST, errors=errors)
    load = _load(mock, now, allocated_milli)
    total_mib = mock.device.memory_mib or 0
    power_mw = mock.power_mw + round(_BUSY_POWER_MW * load)
    used_mib = mock.memory_used_mib + int((total_mib - mock.memory_used_mib) * _BUSY_MEMORY * load)

    def readable(name: str) -> bool:
        return name not in mock.unreadable

    return DeviceSample(
        uuid=uuid,
        taken_at=now,
        utilization_pct=min(100, mock.utilization_pct + round(100 * load)) if readable("utilization_pct") else None,
        memory_used_mib=used_mib if readable("memory_used") else None,
        memory_free_mib=total_mib - used_mib if readable("memory_used") else None,
        memory_total_mib=total_mib,
        temperature_c=mock.temperature_c + round(_BUSY_TEMPERATURE_C * load) if readable("temperature_c") else None,
        power_mw=min(power_mw, limit_mw or power_mw) if readable("power_w") else None,
        processes=mock.processes if readable("processes") else None,
        ecc_errors=mock.ecc_errors,
        memory_bandwidth_pct=(
            min(100, mock.memory_bandwidth_pct + round(_BUSY_BANDWIDTH_PCT * load))
            if readable("memory_bandwidth_pct")
            else None
        ),
        sm_clock_mhz=mock.sm_clock_mhz if readable("sm_clock_mhz") else None,
        mem_clock_mhz=mock.mem_clock_mhz if readable("mem_clock_mhz") else None,
        xid=mock.xid if readable("xid") else None,
        throttle=mock.throttle if readable("throttle") else None,
        errors=errors if readable("xid") else (),
        vitals=Vitals(now, remap_pending=mock.remap_pending, remap_failed=mock.remap_failed),
    )


def _sample_slice(mock: MockDevice, part: Partition, now: float) -> DeviceSample:
    """Return the sample of a slice without jobs: a file describes only the readings of the whole device."""
    if mock.lost:
        fault = "the device it is cut from is lost: it has fallen off the bus"
        return DeviceSample(part.uuid, now, fault=fault, failure=ReadFailure.LOST)
    return DeviceSample(
        part.uuid,
        now,
        memory_used_mib=0,
        memory_free_mib=part.memory_mib,
        memory_total_mib=part.memory_mib,
        processes=(),
    )


def _load(mock: MockDevice, now: float, allocated_milli: int) -> float:
    """Return the load of the device beyond the readings of its row, from 0 to 1."""
    chance = random.Random(f"{mock.device.uuid}/{int(now // _STEP_S)}").random()
    if mock.load is Load.RANDOM:
        return chance
    if mock.load is Load.FOLLOW_JOBS:
        return min(1.0, allocated_milli / MILLI_PER_DEVICE) * (0.85 + 0.14 * chance)
    return 0.0
