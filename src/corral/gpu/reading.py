"""Reads this host's GPUs through its Corral server, or through the driver if no server answers."""

import logging
import os
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from corral.client import Client, DeviceRow
from corral.client.connecting.server_home import find_server_home
from corral.clock import SystemClock
from corral.config import Settings, load_settings
from corral.core.model.devices.device import Device, DeviceSample, DeviceState, availability_score
from corral.core.model.errors import BackendFailed, CorralError, Refused
from corral.gpu.this_host import node_here
from corral.host.telemetry.discover import discover
from corral.host.telemetry.driver_thread import DriverThread

logger = logging.getLogger(__name__)

_ANSWER_TIMEOUT_S = 5.0
_TAKEN = (
    DeviceState.UNREADABLE,
    DeviceState.UNHEALTHY,
    DeviceState.QUARANTINED,
    DeviceState.PROBATION,
    DeviceState.CORDONED,
    DeviceState.ALLOCATED,
    DeviceState.RESERVED,
)


@dataclass
class GPUInfo:
    """One GPU at the time of the snapshot. Values that could not be read are None. MB are MiB.

    Attributes:
        index: its index in nvidia-smi.
        score: 0.6 x free memory + 0.4 x idle utilisation, unless the site weighs them otherwise, from 0.0 to 1.0; 0.0
            if either could not be read.
        uuid: the driver's name for the GPU, the same in every tool.
        taken: why it cannot be had, whatever its readings: its job, its administrator or its health; else None.
        process_count: the number of compute processes on it; None if they could not be listed.
        vendor: its maker: nvidia, amd; "" if a server of an older version does not say.
    """

    index: int
    name: str
    memory_total_mb: int | None
    memory_used_mb: int | None
    memory_free_mb: int | None
    utilization_percent: int | None
    temperature_c: int | None
    power_draw_w: float | None
    score: float
    uuid: str = ""
    taken: str | None = None
    process_count: int | None = None
    vendor: str = ""

    @property
    def readable(self) -> bool:
        """Whether its memory and its utilisation could be read."""
        return self.memory_free_mb is not None and bool(self.memory_total_mb) and self.utilization_percent is not None


class Sight:
    """Reads the GPUs of this host; thread-safe. `through_server` says how the last reading was made."""

    def __init__(self) -> None:
        self._driver = DriverThread(_ANSWER_TIMEOUT_S)
        self._source = discover(SystemClock())
        self._complained: str | None = None
        self._memory_weight = site_settings().availability_memory_weight

    def look(self) -> list[GPUInfo] | None:
        """Every GPU by index, None if none can be read. Says why once, and never raises."""
        try:
            gpus = see_through_server(self.uuids)
        except Refused as error:
            self._complain(f"what the server has on this machine is not known: {error}")
            return None
        if gpus is None:
            gpus = self._see_through_driver()
        return gpus or None

    def uuids(self) -> frozenset[str]:
        """The GPUs that the driver shows, none if it does not answer."""
        try:
            return frozenset(device.uuid for device in self._driver.run(self._source.node, _ANSWER_TIMEOUT_S).devices)
        except BackendFailed:
            return frozenset()

    def _see_through_driver(self) -> list[GPUInfo]:
        try:
            devices, samples = self._driver.run(self._read, _ANSWER_TIMEOUT_S)
        except BackendFailed as error:
            self._complain(f"the GPUs of this machine cannot be read: {error}")
            return []
        return [_from_sample(device, samples.get(device.uuid), self._memory_weight) for device in devices]

    def _complain(self, why: str) -> None:
        """Log a warning once, until there is another one."""
        if why != self._complained:
            logger.warning("%s", why)
        self._complained = why

    def _read(self) -> tuple[tuple[Device, ...], dict[str, DeviceSample]]:
        devices = self._source.node().devices
        return devices, {sample.uuid: sample for sample in self._source.sample()}


def see_through_server(uuids_here: Callable[[], Set[str]]) -> list[GPUInfo] | None:
    """Return the GPUs of this host in its server's listing; None if no server answers or it has none here.

    Raises Refused if the server has several nodes here, and `uuids_here` does not identify the right one.
    """
    try:
        with Client() as client:
            node = node_here(client, uuids_here)
            here = [] if node is None else [row for row in client.devices.list() if row.node == node]
    except Refused:
        raise
    except CorralError as error:
        logger.debug("no server was asked: %s", error)
        return None
    return [_from_row(row) for row in here] or None


def uuids_of_driver() -> frozenset[str]:
    """Return the UUIDs of the GPUs that the driver shows this process; none if no driver answers."""
    return Sight().uuids()


def site_settings() -> Settings:
    """Return the site's settings if they can be read here, else the defaults."""
    try:
        return load_settings(find_server_home(os.environ).config_file)
    except (Refused, OSError) as error:
        logger.warning("the site's settings cannot be read and are ignored: %s", error)
        return Settings()


def own_job() -> str | None:
    """Return the id of the Corral job that this process belongs to, or None."""
    return os.environ.get("CORRAL_JOB_ID") or None


def by_score(gpus: Iterable[GPUInfo]) -> list[GPUInfo]:
    """The best first; of equals the lower index."""
    return sorted(gpus, key=lambda gpu: (-gpu.score, gpu.index))


def _from_row(row: DeviceRow) -> GPUInfo:
    unreadable = row.state == DeviceState.UNREADABLE
    return GPUInfo(
        index=-1 if row.index is None else row.index,
        name=row.name,
        memory_total_mb=row.memory_total_mib,
        memory_used_mb=row.memory_used_mib,
        memory_free_mb=row.memory_free_mib,
        utilization_percent=row.utilization_pct,
        temperature_c=row.temperature_c,
        power_draw_w=row.power_w,
        score=0.0 if unreadable else _availability(row),
        uuid=row.uuid,
        taken=_why_taken(row),
        process_count=None if unreadable else len(row.processes),
        vendor=row.vendor,
    )


def _availability(row: DeviceRow) -> float:
    """Return the server's score of a device. A server of an older version sends none; then compute it here."""
    if row.availability is not None:
        return row.availability
    return availability_score(row.memory_free_mib, row.memory_total_mib, row.utilization_pct)


def _why_taken(row: DeviceRow) -> str | None:
    """A device of the job that this process belongs to is not taken: it is the job's to use."""
    holders = [holder for holder in row.holders if holder.job != own_job()]
    if holders:
        return "allocated to " + ", ".join(f"job {holder.job} of {holder.user}" for holder in holders)
    if row.holders or row.state not in _TAKEN:
        return None
    return f"{row.state}: {row.state_reason}" if row.state_reason else row.state


def _from_sample(device: Device, sample: DeviceSample | None, memory_weight: float) -> GPUInfo:
    if sample is None:
        sample = DeviceSample(device.uuid, 0.0, fault="the driver gave no reading")
    processes = sample.processes
    return GPUInfo(
        index=device.index,
        name=device.model,
        memory_total_mb=device.memory_mib,
        memory_used_mb=sample.memory_used_mib,
        memory_free_mb=sample.memory_free_mib,
        utilization_percent=sample.utilization_pct,
        temperature_c=sample.temperature_c,
        power_draw_w=None if sample.power_mw is None else sample.power_mw / 1000,
        score=availability_score(
            sample.memory_free_mib, sample.memory_total_mib, sample.utilization_pct, memory_weight
        ),
        uuid=device.uuid,
        taken=f"unreadable: {sample.fault}" if sample.fault else None,
        process_count=None if processes is None else len(processes),
        vendor=device.vendor,
    )
