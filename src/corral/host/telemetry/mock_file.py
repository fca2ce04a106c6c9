"""Reads the devices of a `mock-accelerator.toml`: Backend.ai's description of mock devices, with additional keys.

Corral's own keys, all optional and per device, are `utilization_pct`, `memory_used`, `temperature_c`, `power_w`,
`compute_capability`, `links`, `processes`, `unreadable`, `lost`, `load`, `ecc_errors`, `memory_bandwidth_pct`,
`sm_clock_mhz`, `mem_clock_mhz`, `xid`, `xid_pid`, `throttle`, `remap_pending`, `remap_failed`, `hang`, `vendor`,
`power_limit_w`, `min_power_limit_w`, `max_power_limit_w`, `power_refused` and `file`. A link is a peer's `mother_uuid`,
its index, or a table `{ peer, kind, lanes }`. A link in one direction counts in both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from corral.core.model.devices.device import (
    CLOCK_REASONS,
    FAST_LINKS,
    FIRST_VENDOR,
    Device,
    DeviceProcess,
    Link,
    Partition,
)
from corral.core.model.errors import nearest
from corral.core.model.units import parse_memory_mib
from corral.core.model.version import version_tuple
from corral.host.telemetry.toml_table import Table, a_bool, a_list, a_string, an_int
from corral.vendors.registry import vendor_named, vendors
from corral.vendors.vendor import Vendor

FILE_KEYS = ("slot_name", "device_plugin_name", "devices", "attributes", "formats")
_DEVICE_KEYS = (
    *("mother_uuid", "model_name", "numa_node", "subproc_count", "memory_size", "is_mig_device"),
    *("utilization_pct", "memory_used", "temperature_c", "power_w", "compute_capability"),
    *("links", "processes", "unreadable", "lost", "load", "ecc_errors"),
    *("memory_bandwidth_pct", "sm_clock_mhz", "mem_clock_mhz", "xid", "xid_pid", "throttle", "vendor", "file"),
    *("remap_pending", "remap_failed", "hang"),
    *("power_limit_w", "min_power_limit_w", "max_power_limit_w", "power_refused"),
)
_READINGS = (
    *("utilization_pct", "memory_used", "temperature_c", "power_w", "processes"),
    *("memory_bandwidth_pct", "sm_clock_mhz", "mem_clock_mhz", "xid", "throttle"),
)
_SIZE = 'a size with a unit, such as "40G"'
_PEER = "the mother_uuid or the index of another device of this host"


class Load(StrEnum):
    """The load of a mock device beyond its row: none, random, or the load that its jobs would cause."""

    IDLE = "idle"
    RANDOM = "random"
    FOLLOW_JOBS = "follow-jobs"


@dataclass(frozen=True, slots=True)
class MockDevice:
    """A described device and its readings without load; `memory_used_mib` includes the memory of its processes.

    `power_refused` is the reason with which its driver refuses every power limit; None if it accepts those in range.
    """

    device: Device
    utilization_pct: int = 0
    memory_used_mib: int = 0
    temperature_c: int = 30
    power_mw: int = 50_000
    processes: tuple[DeviceProcess, ...] = ()
    unreadable: frozenset[str] = frozenset()
    lost: bool = False
    load: Load = Load.IDLE
    ecc_errors: int | None = None
    memory_bandwidth_pct: int = 0
    sm_clock_mhz: int = 1410
    mem_clock_mhz: int = 1593
    xid: int = 0
    xid_pid: int | None = None
    throttle: int = 0
    power_refused: str | None = None
    remap_pending: bool = False
    remap_failed: bool = False
    hang: bool = False


@dataclass(frozen=True, slots=True)
class MockBox:
    """All devices of one host; a device's index is its position in the file."""

    devices: tuple[MockDevice, ...]
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None


def read_box(top: Table, host: Table, known: dict[str, str]) -> MockBox:
    """Return the devices of one host, with the values of the top table for all. Raises Refused, naming the line.

    `known` has the device ids of other hosts with the hosts' titles; this host's ids are added.
    """
    first = _vendor_of(top)
    top.get("device_plugin_name", "", a_string, "a string")
    attributes = Table(top.get("attributes", {}, _a_table, "a table"), top.document, ("attributes",), "attributes")
    return MockBox(
        devices=_read_devices(host, known, first),
        driver_version=attributes.get(first.mock.driver_version, None, a_string, 'a version such as "550.54.15"'),
        cuda_version=_read_cuda(attributes, first),
    )


def _vendor_of(top: Table) -> Vendor:
    """Return the vendor of devices without a vendor of their own, by the `slot_name` of the file."""
    slot = top.get("slot_name", vendor_named(FIRST_VENDOR).mock.slot, a_string, "a string")
    return next((vendor for vendor in vendors().values() if vendor.mock.slot == slot), vendor_named(FIRST_VENDOR))


def _read_cuda(attributes: Table, vendor: Vendor) -> tuple[int, int] | None:
    if vendor.mock.cuda_version is None:
        return None
    version: tuple[int, int] | None = attributes.get(vendor.mock.cuda_version, None, _cuda, 'a version such as "12.4"')
    return version


def _read_devices(host: Table, known: dict[str, str], first: Vendor) -> tuple[MockDevice, ...]:
    devices: dict[str, MockDevice] = {}
    for number, row in enumerate(host.tables("devices")):
        described = _read_device(row, number, first)
        uuid = described.device.uuid
        before = devices.get(uuid)
        if uuid in known:
            raise row.refuse("mother_uuid", f"{uuid} is a device of {known[uuid]} already; each device has its own id")
        if before is None:
            devices[uuid] = replace(described, device=replace(described.device, index=len(devices)))
        elif before.device.mig_enabled and described.device.mig_enabled:
            devices[uuid] = _join_slices(before, described)
        else:
            raise row.refuse("mother_uuid", f"{uuid} is there already; only rows with is_mig_device may share a device")
    _link(devices, host.tables("devices"))
    known.update(dict.fromkeys(devices, host.title))
    return tuple(devices.values())


def _read_device(row: Table, number: int, first: Vendor) -> MockDevice:
    row.expect_keys(_DEVICE_KEYS)
    vendor = vendor_named(row.get("vendor", first.name, _vendor, f"one of {', '.join(vendors())}"))
    uuid = row.need("mother_uuid", a_string, "the device's id")
    model = row.need("model_name", a_string, "the model's name")
    memory_mib = row.need("memory_size", _size, _SIZE)
    row.get("subproc_count", 0, an_int(0, 1_000_000), "a number of processors")
    is_slice = row.get("is_mig_device", False, a_bool, "true or false")
    model, profile = vendor.mock.slice_of(model) if is_slice else (model, "")
    file = row.get("file", None, a_string, "the path of a device file")
    files = () if file is None else (file,)
    device = Device(
        uuid=uuid,
        index=0,
        model=model,
        memory_mib=memory_mib,
        compute_capability=row.get("compute_capability", None, _capability, 'a version such as "8.0"'),
        numa_node=row.get("numa_node", None, _numa_node, "the number of a NUMA node, or -1 for none"),
        mig_enabled=is_slice,
        partitions=(Partition(vendor.mock.slice_id(uuid, number), profile, memory_mib, files),) if is_slice else (),
        vendor=vendor.name,
        files=files,
        power_limit_mw=_read_power_mw(row, "power_limit_w"),
        power_range_mw=_read_power_range_mw(row),
    )
    processes = tuple(_read_process(process) for process in row.tables("processes"))
    held_mib = sum(process.memory_mib or 0 for process in processes)
    used_mib = max(held_mib, row.get("memory_used", 0, _size_or_zero, _SIZE))
    if used_mib > memory_mib:
        key = "memory_used" if "memory_used" in row.data else "processes"
        raise row.refuse(key, f"{used_mib} MiB are in use on a device of {memory_mib} MiB")
    return MockDevice(
        device=device,
        utilization_pct=row.get("utilization_pct", 0, an_int(0, 100), "a percentage from 0 to 100"),
        memory_used_mib=used_mib,
        temperature_c=row.get("temperature_c", 30, an_int(-40, 150), "degrees Celsius from -40 to 150"),
        power_mw=round(1000 * row.get("power_w", 50.0, _watts, "watts from 0 to 10000")),
        processes=processes,
        unreadable=_read_unreadable(row),
        lost=row.get("lost", False, a_bool, "true or false"),
        load=row.get("load", Load.IDLE, Load, f"one of {', '.join(Load)}"),
        ecc_errors=row.get("ecc_errors", None, an_int(0, 2**31 - 1), "a number of memory errors"),
        memory_bandwidth_pct=row.get("memory_bandwidth_pct", 0, an_int(0, 100), "a percentage from 0 to 100"),
        sm_clock_mhz=row.get("sm_clock_mhz", 1410, an_int(0, 100_000), "a clock in MHz"),
        mem_clock_mhz=row.get("mem_clock_mhz", 1593, an_int(0, 100_000), "a clock in MHz"),
        xid=row.get("xid", 0, an_int(0, 10_000), "the number of an Xid error, 0 for none"),
        xid_pid=row.get("xid_pid", None, an_int(1, 2**31 - 1), "the process that the driver names in the Xid error"),
        throttle=_read_throttle(row),
        power_refused=row.get("power_refused", None, a_string, "the driver's words"),
        remap_pending=row.get("remap_pending", False, a_bool, "true or false"),
        remap_failed=row.get("remap_failed", False, a_bool, "true or false"),
        hang=row.get("hang", False, a_bool, "true or false"),
    )


def _read_power_range_mw(row: Table) -> tuple[int, int] | None:
    least, most = (_read_power_mw(row, key) for key in ("min_power_limit_w", "max_power_limit_w"))
    return None if least is None or most is None else (least, most)


def _read_power_mw(row: Table, key: str) -> int | None:
    watts: float | None = row.get(key, None, _watts, "watts from 0 to 10000")
    return None if watts is None else round(1000 * watts)


def _read_process(row: Table) -> DeviceProcess:
    row.expect_keys(("pid", "user", "memory", "utilization_pct"))
    return DeviceProcess(
        pid=row.need("pid", an_int(1, 2**31 - 1), "a process id"),
        user=row.get("user", None, a_string, "a user name"),
        memory_mib=row.get("memory", None, _size_or_zero, _SIZE),
        utilization_pct=row.get("utilization_pct", None, an_int(0, 100), "a percentage from 0 to 100"),
    )


def _read_unreadable(row: Table) -> frozenset[str]:
    names: list[Any] = row.get("unreadable", [], a_list, "a list of readings")
    for name in names:
        if name not in _READINGS:
            raise row.refuse("unreadable", f"{name!r} is not a reading; {nearest(str(name), _READINGS)}")
    return frozenset(names)


def _read_throttle(row: Table) -> int:
    names: list[Any] = row.get("throttle", [], a_list, "a list of reasons")
    bits = 0
    for name in names:
        if not isinstance(name, str) or name not in CLOCK_REASONS:
            raise row.refuse("throttle", f"{name!r:.60} is not a reason; {nearest(str(name), CLOCK_REASONS)}")
        bits |= CLOCK_REASONS[name]
    return bits


def _join_slices(whole: MockDevice, part: MockDevice) -> MockDevice:
    """Return the physical device with one more slice: sums of additive values, the worse of both for others."""
    device = replace(
        whole.device,
        memory_mib=(whole.device.memory_mib or 0) + (part.device.memory_mib or 0),
        partitions=whole.device.partitions + part.device.partitions,
        compute_capability=whole.device.compute_capability or part.device.compute_capability,
        files=whole.device.files + part.device.files,
    )
    return replace(
        whole,
        device=device,
        utilization_pct=max(whole.utilization_pct, part.utilization_pct),
        memory_used_mib=whole.memory_used_mib + part.memory_used_mib,
        temperature_c=max(whole.temperature_c, part.temperature_c),
        power_mw=max(whole.power_mw, part.power_mw),
        processes=whole.processes + part.processes,
        unreadable=whole.unreadable | part.unreadable,
        lost=whole.lost or part.lost,
        load=part.load if whole.load is Load.IDLE else whole.load,
        ecc_errors=max((e for e in (whole.ecc_errors, part.ecc_errors) if e is not None), default=None),
        memory_bandwidth_pct=max(whole.memory_bandwidth_pct, part.memory_bandwidth_pct),
        xid=whole.xid or part.xid,
        xid_pid=whole.xid_pid or part.xid_pid,
        throttle=whole.throttle | part.throttle,
        remap_pending=whole.remap_pending or part.remap_pending,
        remap_failed=whole.remap_failed or part.remap_failed,
        hang=whole.hang or part.hang,
    )


def _link(devices: dict[str, MockDevice], rows: Sequence[Table]) -> None:
    """Add every link of the rows to both of its ends."""
    uuids = list(devices)
    links: dict[str, dict[str, Link]] = {uuid: {} for uuid in uuids}
    for row in rows:
        uuid = row.data["mother_uuid"]
        entries: list[Any] = row.get("links", [], a_list, f"a list, each {_PEER}")
        for entry in entries:
            peer, kind, lanes = _read_link(row, entry, uuids)
            if peer == uuid:
                raise row.refuse("links", f"a device has no link to itself ({entry!r:.60})")
            links[uuid][peer] = Link(peer, kind, lanes)
            links[peer].setdefault(uuid, Link(uuid, kind, lanes))
    for uuid, mock in devices.items():
        ordered = tuple(links[uuid][peer] for peer in uuids if peer in links[uuid])
        devices[uuid] = replace(mock, device=replace(mock.device, links=ordered))


def _read_link(row: Table, entry: Any, uuids: list[str]) -> tuple[str, str, int]:
    kind, lanes, peer = "nvlink", 1, entry
    if isinstance(entry, dict):
        table = Table(entry, row.document, (*row.at, "links"), f"{row.title}.links")
        table.expect_keys(("peer", "kind", "lanes"))
        kind = table.get("kind", kind, _link_kind, "nvlink, pcie or system")
        lanes = table.get("lanes", lanes, an_int(1, 64), "a number of lanes")
        peer = entry.get("peer")
    if type(peer) is int and 0 <= peer < len(uuids):
        return uuids[peer], kind, lanes
    if peer not in uuids:
        raise row.refuse("links", f"a link must name {_PEER}, not {peer!r:.60}")
    return str(peer), kind, lanes


def _link_kind(value: Any) -> str:
    if value not in (*FAST_LINKS, "pcie", "system"):
        raise ValueError
    return str(value)


def _vendor(value: Any) -> str:
    if value not in vendors():
        raise ValueError
    return str(value)


def _numa_node(value: Any) -> int | None:
    number = an_int(-1, 1023)(value)
    return number if number >= 0 else None


def _size(value: Any) -> int:
    return parse_memory_mib(a_string(value))


def _size_or_zero(value: Any) -> int:
    return 0 if value == 0 or value in ("0", "0M", "0G") else _size(value)


def _watts(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10_000:
        raise ValueError
    return float(value)


def _capability(value: Any) -> tuple[int, int]:
    numbers = version_tuple(str(value))
    if not isinstance(value, str | float) or numbers is None or len(numbers) != 2:
        raise ValueError
    return numbers[0], numbers[1]


def _a_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _cuda(value: Any) -> tuple[int, int]:
    numbers = version_tuple(a_string(value))
    if numbers is None:
        raise ValueError
    return numbers[0], numbers[1] if len(numbers) > 1 else 0
