"""Reads NVIDIA devices with the `nvidia-smi` command, on hosts where this process cannot load NVML."""

import math
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from corral.clock import Clock
from corral.core.model.devices.device import Device, DeviceProcess, DeviceSample
from corral.core.model.devices.vitals import ReadFailure
from corral.core.model.errors import BackendFailed
from corral.core.model.version import version_tuple
from corral.core.ports.telemetry import CARELESS, Care
from corral.vendors.nvidia.device_files import gpu_files, minor_of
from corral.vendors.vendor import FoundDevices

_TIMEOUT_S = 20.0
_INVENTORY_AGE_S = 60.0
_READINGS = (
    "index,uuid,name,memory.total,memory.used,memory.free,utilization.gpu,temperature.gpu,power.draw,power.limit,"
    "compute_mode"
)
_MORE_READINGS = (
    "utilization.memory,clocks.sm,clocks.mem,clocks_event_reasons.active",
    "utilization.memory,clocks.sm,clocks.mem,clocks_throttle_reasons.active",
    "utilization.memory,clocks.sm,clocks.mem",
    "",
)
"""Further fields of a sample. The later lists are for releases that do not know all fields of an earlier one."""
_DETAILS = (
    "uuid,driver_version,pci.bus_id,compute_cap,persistence_mode,ecc.mode.current,mig.mode.current",
    "uuid,driver_version,pci.bus_id,persistence_mode",
)
"""Further fields of an inventory. The shorter list is for releases that do not know all fields of the longer."""
_UNREADABLE = frozenset({"", "N/A", "[N/A]", "[NOT SUPPORTED]", "[UNKNOWN ERROR]", "ERR!", "[GPU IS LOST]"})
_EXIT_REASONS = {
    6: "nvidia-smi finds no such device (exit 6)",
    9: "the NVIDIA driver is not loaded (nvidia-smi exit 9)",
    12: "nvidia-smi cannot find libnvidia-ml.so.1, a part of the driver (exit 12)",
    15: "a GPU is lost: it has fallen off the bus (nvidia-smi exit 15)",
}
Row = dict[str, str | None]


class FieldNotKnown(BackendFailed):
    """This release of nvidia-smi does not know one of the requested fields."""


class NvidiaSmiSource:
    """The devices that `nvidia-smi` lists. A sample starts two processes, and none keeps running.

    A device stays in the inventory when it is no longer listed; its samples then have a fault. NVLinks are not known.
    """

    name = "nvidia-smi"
    unopened: tuple[str, ...] = ()
    one_by_one = False

    def __init__(self, clock: Clock, *, command: str = "nvidia-smi") -> None:
        self._clock = clock
        self._command = command
        self._found: FoundDevices | None = None
        self._read_at = 0.0
        self._more_readings = 0

    def found(self) -> FoundDevices:
        """The inventory, at most a minute old. Raises BackendFailed if no device can be listed."""
        if self._found is None or self._clock.monotonic() - self._read_at >= _INVENTORY_AGE_S:
            self._found = self._read_inventory()
            self._read_at = self._clock.monotonic()
        return self._found

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """One sample of each device, or of the devices in `uuids`."""
        if uuids is None:
            uuids = [device.uuid for device in self.found().devices]
        fault, failure = "nvidia-smi no longer lists it; it may have fallen off the bus", ReadFailure.LOST
        try:
            rows = {row["uuid"]: row for row in self._readings()}
            processes = self._processes()
        except BackendFailed as error:
            rows, processes, fault, failure = {}, None, str(error), ReadFailure.DRIVER
        now = self._clock.now()
        return tuple(
            _sample(rows[uuid], uuid, now, processes)
            if uuid in rows
            else DeviceSample(uuid, now, fault=fault, failure=failure)
            for uuid in uuids
        )

    def take_care(self, care: Care) -> None:
        """Do nothing: the command lists all devices or none."""

    def close(self) -> None:
        """Do nothing: the source holds nothing open."""

    def _readings(self) -> list[Row]:
        """The rows of a sample. If a release refuses a list of fields, the list is never tried again."""
        for number in range(self._more_readings, len(_MORE_READINGS)):
            try:
                rows = self._query("gpu", ",".join(filter(None, (_READINGS, _MORE_READINGS[number]))))
            except FieldNotKnown:
                continue
            self._more_readings = number
            return rows
        raise BackendFailed("nvidia-smi does not know the fields that Corral asks for")

    def _read_inventory(self) -> FoundDevices:
        details, driver_version = self._details(), None
        devices = []
        for row in self._readings():
            if row["uuid"] is None:
                continue
            more = details.get(row["uuid"], {})
            driver_version = driver_version or more.get("driver_version")
            devices.append(_device(row["uuid"], row, more))
        before = {} if self._found is None else {device.uuid: device for device in self._found.devices}
        listed = {device.uuid for device in devices}
        devices += [device for uuid, device in before.items() if uuid not in listed]
        devices.sort(key=lambda device: (device.index, device.uuid))
        cuda_version = self._found.cuda_version if self._found is not None else self._cuda_version()
        known = driver_version or (self._found.driver_version if self._found else None)
        return FoundDevices(tuple(devices), known, cuda_version)

    def _details(self) -> dict[str | None, Row]:
        for fields in _DETAILS:
            try:
                return {row["uuid"]: row for row in self._query("gpu", fields)}
            except BackendFailed:
                continue
        return {}

    def _cuda_version(self) -> tuple[int, int] | None:
        found = re.search(r"CUDA Version\s*:\s*(\d+)\.(\d+)", self._run("-q", "-d", "COMPUTE").stdout)
        return (int(found[1]), int(found[2])) if found else None

    def _processes(self) -> dict[str | None, list[DeviceProcess]] | None:
        """Compute processes by device; None if they cannot be listed."""
        found: dict[str | None, list[DeviceProcess]] = {}
        try:
            rows = self._query("compute-apps", "gpu_uuid,pid,used_memory")
        except BackendFailed:
            return None
        for row in rows:
            pid = _number(row["pid"])
            if pid is not None:
                found.setdefault(row["gpu_uuid"], []).append(DeviceProcess(pid, _number(row["used_memory"])))
        return found

    def _query(self, what: str, fields: str) -> list[Row]:
        """The rows of a CSV query. Raises BackendFailed if the command failed and printed no rows."""
        done = self._run(f"--query-{what}={fields}", "--format=csv,noheader,nounits")
        names = fields.split(",")
        cells = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
        rows = [dict(zip(names, map(_readable, row), strict=True)) for row in cells if len(row) == len(names)]
        if done.returncode != 0 and not rows and "is not a valid field" in done.stdout + done.stderr:
            raise FieldNotKnown(_failure(done))
        if done.returncode != 0 and not rows:
            raise BackendFailed(_failure(done))
        return rows

    def _run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                [self._command, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError as error:
            raise BackendFailed(f"there is no {self._command} on the PATH") from error
        except OSError as error:
            raise BackendFailed(f"{self._command} cannot be run: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise BackendFailed(f"nvidia-smi has not answered for {_TIMEOUT_S:.0f} s") from error


def open_nvidia_smi(clock: Clock, care: Care = CARELESS) -> NvidiaSmiSource:
    """A source whose command has listed a device. Raises BackendFailed if it lists none."""
    del care
    if shutil.which("nvidia-smi") is None:
        raise BackendFailed("there is no nvidia-smi on the PATH")
    source = NvidiaSmiSource(clock)
    if not source.found().devices:
        raise BackendFailed("nvidia-smi lists no GPU")
    return source


def _device(uuid: str, row: Row, more: Row) -> Device:
    capability = version_tuple(more.get("compute_cap")) or ()
    power_w = _decimal(row["power.limit"])
    return Device(
        uuid=uuid,
        index=_number(row["index"]) or 0,
        model=row["name"] or "unknown",
        memory_mib=_number(row["memory.total"]),
        compute_capability=(capability[0], capability[1]) if len(capability) > 1 else None,
        pci_bus_id=more.get("pci.bus_id"),
        mig_enabled=_enabled(more.get("mig.mode.current")),
        power_limit_mw=None if power_w is None else round(1000 * power_w),
        persistence=_enabled(more.get("persistence_mode")),
        ecc=_enabled(more.get("ecc.mode.current")),
        files=gpu_files(minor_of(more.get("pci.bus_id"))),
    )


def _sample(
    row: Row, uuid: str, now: float, processes: Mapping[str | None, list[DeviceProcess]] | None
) -> DeviceSample:
    power_w = _decimal(row["power.draw"])
    return DeviceSample(
        uuid=uuid,
        taken_at=now,
        utilization_pct=_number(row["utilization.gpu"]),
        memory_used_mib=_number(row["memory.used"]),
        memory_free_mib=_number(row["memory.free"]),
        memory_total_mib=_number(row["memory.total"]),
        temperature_c=_number(row["temperature.gpu"]),
        power_mw=None if power_w is None else round(1000 * power_w),
        processes=None if processes is None else tuple(processes.get(uuid, ())),
        memory_bandwidth_pct=_number(row.get("utilization.memory")),
        sm_clock_mhz=_number(row.get("clocks.sm")),
        mem_clock_mhz=_number(row.get("clocks.mem")),
        throttle=_bits(row.get("clocks_event_reasons.active") or row.get("clocks_throttle_reasons.active")),
    )


def _readable(cell: str) -> str | None:
    return None if cell.upper() in _UNREADABLE else cell


def _decimal(cell: str | None) -> float | None:
    """The number in a cell. Every other text gives None: an unknown format counts as unreadable."""
    try:
        number = None if cell is None else float(cell)
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None


def _number(cell: str | None) -> int | None:
    number = _decimal(cell)
    return None if number is None or not number.is_integer() else int(number)


def _bits(cell: str | None) -> int | None:
    """The number in a cell like 0x0000000000000004."""
    return int(cell, 16) if cell is not None and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", cell) else None


def _enabled(cell: str | None) -> bool | None:
    return {"enabled": True, "disabled": False}.get(cell.lower()) if cell is not None else None


def _failure(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode in _EXIT_REASONS:
        return _EXIT_REASONS[done.returncode]
    said = (done.stdout + done.stderr).strip().splitlines()
    return f"nvidia-smi failed (exit {done.returncode}): {said[0] if said else 'it said nothing'}"
