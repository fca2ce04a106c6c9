"""Reads AMD devices through the `amdsmi` package, in this process, over one open session."""

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corral.clock import Clock
from corral.core.model.devices.device import Device, DeviceProcess, DeviceSample, Link, Partition
from corral.core.model.devices.vitals import DriverError, ReadFailure
from corral.core.model.errors import BackendFailed
from corral.core.ports.telemetry import CARELESS, Care
from corral.vendors.amd.partitions import WHOLE
from corral.vendors.amd.smi_events import AmdEvents
from corral.vendors.amd.smi_vitals import AmdVitals
from corral.vendors.vendor import FoundDevices, NotHere

KERNEL_DRIVER = "/dev/kfd"
"""The file that the driver of AMD's devices makes. Without it the source reports no devices."""

_INVENTORY_AGE_S = 60.0
_MIB = 1024 * 1024
_NO_UTILIZATION = 0xFFFF
_DRIVER_GONE = {
    32: "the session with the AMD driver has ended",
    34: "the AMD driver is not loaded",
    51: "the AMD driver is not loaded",
}
"""The codes of amdsmi after which no device can be queried."""

Handle = Any


class DriverGone(BackendFailed):
    """The driver went away or was reloaded. A new session is needed for any device."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A device or a partition: the values that do not change, and the handle for queries."""

    handle: Handle
    uuid: str
    bus_id: str
    mode: str
    memory_mib: int | None
    files: tuple[str, ...]


class AmdSmiSource:
    """The devices that the AMD driver knows. A device stays in the inventory when it is lost.

    A device in a mode of compute partitions is a device with partitions, and the partitions are queried one by one.
    """

    name = "amdsmi"
    unopened: tuple[str, ...] = ()
    one_by_one = True

    def __init__(self, clock: Clock, smi: Any, *, listens: bool = False) -> None:
        """`smi` is the module `amdsmi`. Who `listens` hears of errors, and opens the driver for that as programs do."""
        self._clock = clock
        self._smi = smi
        self._found: FoundDevices | None = None
        self._read_at = 0.0
        self._open = False
        self._seen: dict[str, _Seen] = {}
        self._vitals = AmdVitals(smi, self._ask)
        self._events = AmdEvents(smi)
        self._listens = listens

    def found(self) -> FoundDevices:
        """The inventory, at most a minute old. Raises BackendFailed if the driver does not answer."""
        found, age_s = self._found, self._clock.monotonic() - self._read_at
        if found is None or not self._open or age_s >= _INVENTORY_AGE_S:
            found = self._found = self._read_inventory()
            self._read_at = self._clock.monotonic()
        return found

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """One sample of each device and partition, or of the devices in `uuids`."""
        now = self._clock.now()
        try:
            devices = {device.uuid: device for device in self.found().devices}
        except BackendFailed as error:
            known = () if self._found is None else self._found.devices
            wanted = _uuids(known) if uuids is None else uuids
            return tuple(DeviceSample(uuid, now, fault=str(error), failure=ReadFailure.DRIVER) for uuid in wanted)
        self._events.collect()
        samples = []
        for uuid in _uuids(devices.values()) if uuids is None else uuids:
            parts = devices[uuid].partitions if uuid in devices else ()
            samples.append(self._whole(uuid, [part.uuid for part in parts]) if parts else self._one(uuid))
        return tuple(samples)

    def take_care(self, care: Care) -> None:
        """Do nothing: the inventory comes from the kernel's files, which do not wait for a device."""

    def close(self) -> None:
        """End the session."""
        if self._open:
            self._events.close()
            self._open = False
            self._ask(self._smi.amdsmi_shut_down)

    def _read_inventory(self) -> FoundDevices:
        # A session does not show devices that came or went since it began.
        self.close()
        try:
            self._smi.amdsmi_init()
        except self._smi.AmdSmiLibraryException as error:
            raise DriverGone(_DRIVER_GONE.get(_code(error), f"amdsmi cannot be started: {error}")) from error
        self._open = True
        handles = self._ask(self._smi.amdsmi_get_processor_handles) or []
        seen = [one for one in map(self._look, handles) if one is not None]
        self._seen = {one.uuid: one for one in seen}
        if self._listens:
            self._events.listen({one.uuid: one.handle for one in seen})
        boards: dict[str, list[_Seen]] = {}
        for one in seen:
            # The partitions of a device differ in the last part of their address.
            boards.setdefault(one.bus_id.rpartition(".")[0], []).append(one)
        devices = [self._device(index, parts) for index, parts in enumerate(boards.values())]
        listed = {device.uuid for device in devices}
        gone = [device for device in (self._found.devices if self._found else ()) if device.uuid not in listed]
        devices += [replace(device, index=len(devices) + number) for number, device in enumerate(gone)]
        return FoundDevices(tuple(self._linked(devices)), self._driver_version(handles))

    def _look(self, handle: Handle) -> _Seen | None:
        ids = self._ask(self._smi.amdsmi_get_gpu_enumeration_info, handle) or {}
        bus_id = self._ask(self._smi.amdsmi_get_gpu_device_bdf, handle)
        uuid = device_uuid(ids)
        if uuid is None or bus_id is None:
            return None
        mode = self._ask(self._smi.amdsmi_get_gpu_compute_partition, handle) or WHOLE
        usage = self._ask(self._smi.amdsmi_get_gpu_vram_usage, handle)
        render = _number(ids.get("drm_render"))
        files = () if render is None else (f"/dev/dri/renderD{render}",)
        return _Seen(handle, uuid, bus_id, mode, _number(usage and usage["vram_total"]), files)

    def _device(self, index: int, parts: Sequence[_Seen]) -> Device:
        first = parts[0]
        asic = self._ask(self._smi.amdsmi_get_gpu_asic_info, first.handle) or {}
        cap = self._ask(self._smi.amdsmi_get_power_cap_info, first.handle)
        device = Device(
            uuid=first.uuid,
            index=index,
            model=_model(asic.get("market_name")),
            memory_mib=first.memory_mib,
            pci_bus_id=first.bus_id,
            mig_enabled=False,
            power_limit_mw=_power_mw(cap, "power_cap"),
            power_range_mw=_power_range_mw(cap),
            files=tuple(file for part in parts for file in part.files),
        )
        if first.mode == WHOLE:
            return device
        memory = self._ask(self._smi.amdsmi_get_gpu_vram_info, first.handle)
        memory_mib = _number(memory and memory["vram_size"])
        return replace(
            device,
            uuid=f"AMD-{asic.get('asic_serial') or first.bus_id}",
            memory_mib=memory_mib,
            mig_enabled=True,
            partitions=_partitions(parts, memory_mib),
        )

    def _linked(self, devices: Sequence[Device]) -> list[Device]:
        """The devices with their links. XGMI is the fast link here, like NVLink for NVIDIA."""
        linked = []
        for device in devices:
            links = []
            for peer in devices:
                kind = None if peer is device else self._link_kind(device.uuid, peer.uuid)
                if kind is not None:
                    links.append(Link(peer.uuid, kind))
            linked.append(replace(device, links=tuple(links)))
        return linked

    def _link_kind(self, uuid: str, peer: str) -> str | None:
        ends = self._seen.get(uuid), self._seen.get(peer)
        if ends[0] is None or ends[1] is None:
            return None
        link = self._ask(self._smi.amdsmi_topo_get_link_type, ends[0].handle, ends[1].handle)
        return None if link is None else {1: "pcie", 2: "xgmi"}.get(link["type"])

    def _driver_version(self, handles: Sequence[Handle]) -> str | None:
        told = self._ask(self._smi.amdsmi_get_gpu_driver_info, handles[0]) if handles else None
        version = None if told is None else str(told["driver_version"])
        return version if version and version[0].isdigit() else None

    def _one(self, uuid: str) -> DeviceSample:
        now, seen = self._clock.now(), self._seen.get(uuid)
        errors = tuple(DriverError(code, now, pid) for code, pid in self._events.take(uuid))
        if seen is None:
            fault = "the driver does not show this GPU; it may have fallen off the bus"
            return DeviceSample(uuid, now, fault=fault, failure=ReadFailure.LOST, errors=errors)
        smi, handle = self._smi, seen.handle
        usage = self._ask(smi.amdsmi_get_gpu_vram_usage, handle)
        activity = self._ask(smi.amdsmi_get_gpu_activity, handle)
        if usage is None and activity is None:
            fault = "the GPU is lost: it has stopped answering the driver"
            return DeviceSample(uuid, now, fault=fault, failure=ReadFailure.LOST, errors=errors)
        total_mib, used_mib = _number(usage and usage["vram_total"]), _number(usage and usage["vram_used"])
        ecc = self._ask(smi.amdsmi_get_gpu_total_ecc_count, handle)
        temperature_c = self._temperature_c(handle)
        seldom = self._vitals.read(handle, uuid, now, temperature_c)
        return DeviceSample(
            uuid=uuid,
            taken_at=now,
            utilization_pct=_percent(activity and activity["gfx_activity"]),
            memory_used_mib=used_mib,
            memory_free_mib=None if total_mib is None or used_mib is None else max(0, total_mib - used_mib),
            memory_total_mib=total_mib,
            temperature_c=temperature_c,
            power_mw=self._power_mw(handle),
            processes=self._processes(handle),
            ecc_errors=_number(ecc and ecc["uncorrectable_count"]),
            memory_bandwidth_pct=_percent(activity and activity["umc_activity"]),
            sm_clock_mhz=self._clock_mhz(handle, smi.AmdSmiClkType.GFX),
            mem_clock_mhz=self._clock_mhz(handle, smi.AmdSmiClkType.MEM),
            throttle=seldom.throttle,
            vitals=seldom.vitals,
            errors=errors,
        )

    def _whole(self, uuid: str, parts: Sequence[str]) -> DeviceSample:
        """A sample of a partitioned device: the sums over its partitions. Heat and power are of the whole device."""
        samples = [self._one(part) for part in parts]
        if (bad := next((sample for sample in samples if sample.fault is not None), None)) is not None:
            return DeviceSample(uuid, self._clock.now(), fault=bad.fault, failure=bad.failure)
        listed = [sample.processes for sample in samples]
        return replace(
            samples[0],
            uuid=uuid,
            errors=tuple(error for sample in samples for error in sample.errors),
            utilization_pct=None,
            memory_used_mib=_sum(sample.memory_used_mib for sample in samples),
            memory_free_mib=_sum(sample.memory_free_mib for sample in samples),
            memory_total_mib=_sum(sample.memory_total_mib for sample in samples),
            processes=None if None in listed else tuple(one for processes in listed for one in processes or ()),
        )

    def _temperature_c(self, handle: Handle) -> int | None:
        smi = self._smi
        for sensor in (smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureType.EDGE):
            value = self._ask(smi.amdsmi_get_temp_metric, handle, sensor, smi.AmdSmiTemperatureMetric.CURRENT)
            if (degrees := _number(value)) is not None:
                return degrees
        return None

    def _power_mw(self, handle: Handle) -> int | None:
        power = self._ask(self._smi.amdsmi_get_power_info, handle) or {}
        watts = (_number(power.get(name)) for name in ("current_socket_power", "average_socket_power"))
        return next((1000 * value for value in watts if value is not None and value < _NO_UTILIZATION), None)

    def _clock_mhz(self, handle: Handle, kind: Any) -> int | None:
        clock = self._ask(self._smi.amdsmi_get_clock_info, handle, kind)
        return _number(clock and clock["clk"])

    def _processes(self, handle: Handle) -> tuple[DeviceProcess, ...] | None:
        listed = self._ask(self._smi.amdsmi_get_gpu_process_list, handle)
        if listed is None:
            return None
        return tuple(
            DeviceProcess(int(one["pid"]), int(one["memory_usage"]["vram_mem"]) // _MIB)
            for one in sorted(listed, key=lambda one: int(one["pid"]))
            # Who listens to the driver may be listed itself, and uses no device.
            if int(one["pid"]) != os.getpid()
        )

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The answer of one call; None if this driver or device does not give it. Raises DriverGone."""
        try:
            return function(*arguments)
        except self._smi.AmdSmiLibraryException as error:
            if (why := _DRIVER_GONE.get(_code(error))) is not None:
                self._open = False
                raise DriverGone(why) from error
            return None


def open_amdsmi(clock: Clock, care: Care = CARELESS) -> AmdSmiSource:
    """A source whose driver has answered. Raises BackendFailed if it does not answer."""
    if not os.path.exists(KERNEL_DRIVER):
        raise NotHere(f"the kernel has no AMD driver ({KERNEL_DRIVER} is missing)")
    # Only who watches devices all the time can tell what happened to them.
    source = AmdSmiSource(clock, load_amdsmi(), listens=care is not CARELESS)
    if not source.found().devices:
        source.close()
        raise BackendFailed("the AMD driver is loaded and finds no GPU")
    return source


def load_amdsmi() -> Any:
    """The module `amdsmi`. Raises BackendFailed, with what to install, if the module or its library is missing."""
    for library in _places():
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        break
    else:
        raise BackendFailed("libamd_smi.so, a part of ROCm, is not installed (package amd-smi-lib)")
    # The package is not imported earlier: without its library it prints on standard output and fails.
    try:
        import amdsmi
    except (ImportError, AttributeError, KeyError, OSError) as error:
        raise BackendFailed(f"the Python package amdsmi cannot be used ({error}); pip install 'corral[amd]'") from error
    return amdsmi


def _places() -> tuple[str, ...]:
    """The places in which the package looks for its library."""
    rocm = os.environ.get("ROCM_HOME", os.environ.get("ROCM_PATH"))
    named = () if not rocm else (os.path.join(rocm, "lib/libamd_smi.so"),)
    return (*named, "libamd_smi.so", "/opt/rocm/lib/libamd_smi.so")


def _partitions(parts: Sequence[_Seen], memory_mib: int | None) -> tuple[Partition, ...]:
    """The partitions of a device; none if its driver does not distinguish them by UUID.

    If they share the memory, each reports all of it, and counts as having an equal part.
    """
    if len({part.uuid for part in parts}) < len(parts):
        return ()
    equal_mib = None if memory_mib is None else memory_mib // len(parts)
    sizes = ([size for size in (part.memory_mib, equal_mib) if size is not None] for part in parts)
    return tuple(
        Partition(part.uuid, part.mode.lower(), min(known, default=None), part.files)
        for part, known in zip(parts, sizes, strict=True)
    )


def _uuids(devices: Iterable[Device]) -> list[str]:
    return [uuid for device in devices for uuid in (device.uuid, *(part.uuid for part in device.partitions))]


def device_uuid(ids: Mapping[str, Any]) -> str | None:
    """The UUID of a device by the names that amdsmi has for it; None if it has none."""
    uuid: str | None = ids.get("hip_uuid") or None
    return uuid if uuid is None or uuid.startswith("GPU-") else f"GPU-{uuid}"


def _model(name: str | None) -> str:
    if not name or name == "N/A":
        return "unknown"
    return name if name.startswith("AMD") else f"AMD {name}"


def _code(error: Any) -> int:
    return abs(int(error.get_error_code()))


def _number(value: Any) -> int | None:
    """A number from amdsmi; None if it is marked as not available."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _power_mw(cap: Mapping[str, Any] | None, name: str) -> int | None:
    microwatts = _number(cap and cap[name])
    return None if not microwatts else microwatts // 1000


def _power_range_mw(cap: Mapping[str, Any] | None) -> tuple[int, int] | None:
    """The least and the greatest power limit that the driver accepts; None if it names none."""
    most_mw = _power_mw(cap, "max_power_cap")
    return None if most_mw is None else (_power_mw(cap, "min_power_cap") or 0, most_mw)


def _percent(value: Any) -> int | None:
    number = _number(value)
    return number if number is not None and 0 <= number <= 100 else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)
