"""Reads NVIDIA devices through NVML, in this process, over one open session."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pynvml

from corral.clock import Clock
from corral.core.model.devices.device import Device, DeviceSample, Link
from corral.core.model.devices.vitals import DriverError, ReadFailure
from corral.core.model.errors import BackendFailed
from corral.core.ports.telemetry import CARELESS, Care
from corral.vendors.nvidia.nvml_calls import DeviceLost, SessionEnded, ask, close_session, open_session
from corral.vendors.nvidia.nvml_devices_and_slices import (
    Handle,
    read_device,
    read_links,
    read_memory_mib,
    read_versions,
)
from corral.vendors.nvidia.nvml_processes import read_processes
from corral.vendors.nvidia.nvml_vitals import NvmlVitals
from corral.vendors.nvidia.nvml_xid import XidEvents
from corral.vendors.vendor import FoundDevices

logger = logging.getLogger(__name__)

_INVENTORY_AGE_S = 60.0
_REOPEN_AFTER_S = 30.0
"""The interval after which a session with a lost device is reopened, to see whether the device came back."""


@dataclass(frozen=True, slots=True)
class _Session:
    """An open session: the devices it reaches, by UUID in index order."""

    handles: Mapping[str, Handle]
    indices: Mapping[str, int]
    links: Mapping[str, tuple[Link, ...]]
    opened_at: float


class NvmlSource:
    """The devices that the NVIDIA driver knows. A device stays in the inventory when it is lost.

    It is safe to call again from another thread while a call hangs. The session is reopened after a driver reload, and
    from time to time while a device is lost.

    Attributes:
        unopened: sentences on devices that the driver counts but does not open, with its reason. Without a UUID they
            cannot be in the inventory.
    """

    name = "nvml"
    one_by_one = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.unopened: tuple[str, ...] = ()
        self._care = CARELESS
        self._session: _Session | None = None
        self._xid = XidEvents()
        self._vitals = NvmlVitals()
        self._known: dict[str, Device] = {}
        self._found: FoundDevices | None = None
        self._read_at = 0.0

    def found(self) -> FoundDevices:
        """The inventory, at most a minute old. Raises BackendFailed if the driver does not answer."""
        found, age_s = self._found, self._clock.monotonic() - self._read_at
        if found is None or self._session is None or age_s >= _INVENTORY_AGE_S:
            found = self._read_inventory(self._session or self._open())
        return found

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """One sample of each device, or of those in `uuids`. Only compute processes count: a display does not."""
        wanted = self._everything() if uuids is None else tuple(uuids)
        for last_try in (False, True):
            try:
                session = self._current_session()
                wanted = wanted or self._everything()
                self._xid.collect()
                return tuple(self._sample(session, uuid) for uuid in wanted)
            except SessionEnded as error:
                self._session = None
                if last_try:
                    now = self._clock.now()
                    return tuple(DeviceSample(u, now, fault=str(error), failure=ReadFailure.DRIVER) for u in wanted)
        raise AssertionError("the last try returns")

    def take_care(self, care: Care) -> None:
        """Deal with devices so from now on. A device that is avoided no more is found by a new session."""
        before, self._care = {device.uuid for device in self._care.avoided}, care
        self._known = {**{device.uuid: device for device in (*care.known, *care.avoided)}, **self._known}
        if before != {device.uuid for device in care.avoided}:
            self._session, self._found = None, None

    def close(self) -> None:
        """End the session."""
        self._session = None
        self._xid.close()
        close_session()

    def _everything(self) -> tuple[str, ...]:
        """The UUIDs of every device and every slice."""
        slices = (part.uuid for device in self._known.values() for part in device.partitions)
        return (*self._known, *slices)

    def _handle(self, session: _Session, uuid: str) -> Handle | None:
        if uuid in session.handles or uuid in self._known:
            return session.handles.get(uuid)
        return ask(pynvml.nvmlDeviceGetHandleByUUID, uuid)

    def _current_session(self) -> _Session:
        session = self._session
        if session is None:
            return self._open()
        lost = len(session.handles) < len(self._known)
        if lost and self._clock.monotonic() - session.opened_at >= _REOPEN_AFTER_S:
            return self._open()
        return session

    def _open(self) -> _Session:
        self._xid.close()
        open_session()
        handles, indices = self._open_devices()
        try:
            links = read_links(handles)
        except DeviceLost:
            links = {}
        session = _Session(handles, indices, links, self._clock.monotonic())
        self._vitals.begin()
        self._read_inventory(session)
        self._xid.listen(handles)
        self._session = session
        return session

    def _open_devices(self) -> tuple[dict[str, Handle], dict[str, int]]:
        """The handle and the index of each device that can be opened, by UUID."""
        handles, indices, unopened = {}, {}, []
        at_index = {device.index: device.uuid for device in self._known.values()}
        avoided = {device.index for device in self._care.avoided}
        for index in range(ask(pynvml.nvmlDeviceGetCount) or 0):
            if index in avoided:
                continue
            self._care.note(at_index.get(index))
            try:
                handle = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
                uuid = None if handle is None else ask(pynvml.nvmlDeviceGetUUID, handle)
            except DeviceLost as error:
                unopened.append(f"GPU {index} cannot be opened: {error}")
                continue
            finally:
                self._care.note(None)
            if uuid is not None:
                handles[uuid], indices[uuid] = handle, index
        for words in unopened:
            if words not in self.unopened:
                logger.warning("%s", words)
        self.unopened = tuple(unopened)
        return handles, indices

    def _read_inventory(self, session: _Session) -> FoundDevices:
        driver_version, cuda_version = read_versions()
        present: dict[str, Device] = {}
        for uuid, handle in session.handles.items():
            self._care.note(uuid)
            try:
                device = read_device(handle, uuid, session.indices[uuid])
            except DeviceLost:
                continue
            finally:
                self._care.note(None)
            present[uuid] = replace(device, links=session.links.get(uuid, ()))
        self._known = _with_lost(present, self._known)
        self._found = FoundDevices(tuple(self._known.values()), driver_version, cuda_version)
        self._read_at = self._clock.monotonic()
        return self._found

    def _sample(self, session: _Session, uuid: str) -> DeviceSample:
        now = self._clock.now()
        handle = self._handle(session, uuid)
        if handle is None:
            fault = "the driver does not show this GPU; it may have fallen off the bus"
            return DeviceSample(uuid, now, fault=fault, failure=ReadFailure.LOST, errors=self._errors(uuid, now))
        try:
            return self._read(handle, uuid, now)
        except DeviceLost as error:
            self._drop(session, uuid)
            return DeviceSample(uuid, now, fault=str(error), failure=ReadFailure.LOST, errors=self._errors(uuid, now))

    def _errors(self, uuid: str, now: float) -> tuple[DriverError, ...]:
        return tuple(DriverError(code, now) for code in self._xid.take(uuid))

    def _read(self, handle: Handle, uuid: str, now: float) -> DeviceSample:
        memory_mib = read_memory_mib(handle)
        utilization = ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
        known = self._known.get(uuid)
        errors = self._errors(uuid, now)
        return DeviceSample(
            uuid=uuid,
            taken_at=now,
            utilization_pct=None if utilization is None else utilization.gpu,
            memory_used_mib=memory_mib[1] if memory_mib else None,
            memory_free_mib=memory_mib[2] if memory_mib else None,
            memory_total_mib=memory_mib[0] if memory_mib else None,
            temperature_c=ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
            power_mw=ask(pynvml.nvmlDeviceGetPowerUsage, handle),
            processes=read_processes(handle, self._clock.shown(now)),
            ecc_errors=_read_ecc_errors(handle) if known is not None and known.ecc else None,
            memory_bandwidth_pct=None if utilization is None else utilization.memory,
            sm_clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
            mem_clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
            xid=self._xid.last(uuid),
            throttle=_read_throttle(handle),
            errors=errors,
            vitals=self._vitals.read(handle, uuid, now, anew=bool(errors)) if known is not None else None,
        )

    def _drop(self, session: _Session, uuid: str) -> None:
        """Query a lost device no more in this session. The next session shows whether it is back."""
        handles = {other: handle for other, handle in session.handles.items() if other != uuid}
        self._session = replace(session, handles=handles, opened_at=self._clock.monotonic())


def _with_lost(present: Mapping[str, Device], known: Mapping[str, Device]) -> dict[str, Device]:
    """Present and lost devices, by index. A lost device gets a new index if a present device has its index."""
    taken = {device.index for device in present.values()}
    devices = list(present.values())
    for device in known.values():
        if device.uuid not in present:
            index = device.index if device.index not in taken else max(taken) + 1
            taken.add(index)
            devices.append(replace(device, index=index))
    return {device.uuid: device for device in sorted(devices, key=lambda device: device.index)}


def _read_ecc_errors(handle: Handle) -> int | None:
    count: int | None = ask(
        pynvml.nvmlDeviceGetTotalEccErrors,
        handle,
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    )
    return count


def _read_throttle(handle: Handle) -> int | None:
    reasons: int | None = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if reasons is None:
        # The name of the same call in drivers before 535.
        reasons = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return reasons


def open_nvml(clock: Clock, care: Care = CARELESS) -> NvmlSource:
    """A source whose driver has answered. Raises BackendFailed if it does not answer."""
    source = NvmlSource(clock)
    source.take_care(care)
    if not source.found().devices:
        source.close()
        raise BackendFailed("the NVIDIA driver is loaded and finds no GPU")
    return source
