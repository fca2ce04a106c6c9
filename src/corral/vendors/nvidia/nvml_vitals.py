"""Reads from NVML what shows whether a device is well. These readings change seldom, so they are taken seldom."""

from collections.abc import Mapping
from typing import NamedTuple

import pynvml

from corral.core.model.devices.vitals import RecoveryAction, Vitals
from corral.vendors.nvidia.nvml_calls import ask
from corral.vendors.nvidia.nvml_devices_and_slices import Handle

VITALS_AGE_S = 10.0
"""The age after which the readings are taken again."""

_FIELDS = (
    pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
    pynvml.NVML_FI_DEV_REMAPPED_PENDING,
    pynvml.NVML_FI_DEV_REMAPPED_FAILURE,
    pynvml.NVML_FI_DEV_REMAPPED_UNC,
    pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
)
"""The fields that one call reads. Each has a return code of its own: a driver may know some of them."""

_LIMIT_FIELDS = (pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, pynvml.NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT)
"""On Ada and newer: the margins (degrees below the GPU's limit) at which it slows itself, and switches itself off."""

_RECOVERIES = {
    pynvml.NVML_GPU_RECOVERY_ACTION_NONE: RecoveryAction.NONE,
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: RecoveryAction.RESET,
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: RecoveryAction.REBOOT,
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: RecoveryAction.DRAIN_P2P,
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: RecoveryAction.DRAIN_AND_RESET,
    pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT: RecoveryAction.REBOOT,
}


class _Fixed(NamedTuple):
    """Limits of a device that do not change within a session. The first two are margins, the next two temperatures."""

    slowdown_margin_c: int | None
    shutdown_margin_c: int | None
    slowdown_c: int | None
    shutdown_c: int | None
    most_pcie_lanes: int | None
    best_pcie_generation: int | None
    links: tuple[int, ...]


class NvmlVitals:
    """Reads the vitals of devices, and keeps them until they are too old."""

    def __init__(self) -> None:
        self._fixed: dict[str, _Fixed] = {}
        self._last: dict[str, Vitals] = {}

    def begin(self) -> None:
        """Forget everything: a session has begun, in which devices may have other limits and links."""
        self._fixed.clear()
        self._last.clear()

    def read(self, handle: Handle, uuid: str, now: float, *, anew: bool = False) -> Vitals:
        """The vitals of a device, at most `VITALS_AGE_S` old; with `anew` those of now."""
        last = self._last.get(uuid)
        if last is not None and not anew and 0 <= now - last.read_at < VITALS_AGE_S:
            return last
        fixed = self._fixed.get(uuid)
        if fixed is None:
            fixed = self._fixed[uuid] = _read_fixed(handle)
        vitals = self._last[uuid] = _read_vitals(handle, fixed, now)
        return vitals


def _read_vitals(handle: Handle, fixed: _Fixed, now: float) -> Vitals:
    fields = _read_fields(handle, _FIELDS)
    slowdown_c, shutdown_c = _margins(handle, fixed)
    action, pending, failed, rows, pcie_replays, link_replays, link_recoveries = (fields[one] for one in _FIELDS)
    return Vitals(
        read_at=now,
        recovery=None if action is None else _RECOVERIES.get(action, RecoveryAction.OTHER),
        remap_pending=None if pending is None else pending != 0,
        remap_failed=None if failed is None else failed != 0,
        remapped_rows=rows,
        below_slowdown_c=slowdown_c,
        below_shutdown_c=shutdown_c,
        pcie_lanes=ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        most_pcie_lanes=fixed.most_pcie_lanes,
        pcie_generation=ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        best_pcie_generation=fixed.best_pcie_generation,
        pcie_replays=pcie_replays,
        link_replays=link_replays,
        link_recoveries=link_recoveries,
        links_down=_links_down(handle, fixed.links),
    )


def _margins(handle: Handle, fixed: _Fixed) -> tuple[int | None, int | None]:
    """The degrees until the device slows itself, and until it switches itself off."""
    if fixed.slowdown_margin_c is not None or fixed.shutdown_margin_c is not None:
        margin_c = ask(pynvml.nvmlDeviceGetMarginTemperature, handle)
        return _difference(margin_c, fixed.slowdown_margin_c), _difference(margin_c, fixed.shutdown_margin_c)
    if fixed.slowdown_c is None and fixed.shutdown_c is None:
        return None, None
    now_c = ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    return _difference(fixed.slowdown_c, now_c), _difference(fixed.shutdown_c, now_c)


def _difference(value: int | None, less: int | None) -> int | None:
    return None if value is None or less is None else value - less


def _read_fixed(handle: Handle) -> _Fixed:
    margins = _read_fields(handle, _LIMIT_FIELDS)
    slowdown, shutdown = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN
    return _Fixed(
        slowdown_margin_c=_signed(margins[pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT]),
        shutdown_margin_c=_signed(margins[pynvml.NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT]),
        slowdown_c=ask(pynvml.nvmlDeviceGetTemperatureThreshold, handle, slowdown) or None,
        shutdown_c=ask(pynvml.nvmlDeviceGetTemperatureThreshold, handle, shutdown) or None,
        most_pcie_lanes=ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        best_pcie_generation=ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        links=_links_up(handle),
    )


def _signed(value: int | None) -> int | None:
    """A margin below zero, which some drivers report as an unsigned number."""
    return value - 2**32 if value is not None and value >= 2**31 else value


def _links_up(handle: Handle) -> tuple[int, ...]:
    """The numbers of the NVLinks that are up."""
    up = []
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        active = ask(pynvml.nvmlDeviceGetNvLinkState, handle, number)
        if active is None:
            break
        if active:
            up.append(number)
    return tuple(up)


def _links_down(handle: Handle, links: tuple[int, ...]) -> int | None:
    """The number of those links that are down; None if there are none, or the driver does not answer for any."""
    states = [ask(pynvml.nvmlDeviceGetNvLinkState, handle, number) for number in links]
    known = [state for state in states if state is not None]
    return sum(1 for state in known if not state) if known else None


def _read_fields(handle: Handle, fields: tuple[int, ...]) -> Mapping[int, int | None]:
    values = ask(pynvml.nvmlDeviceGetFieldValues, handle, fields)
    if values is None:
        return dict.fromkeys(fields)
    return {field: _value(one) for field, one in zip(fields, values, strict=True)}


def _value(field: "pynvml.c_nvmlFieldValue_t") -> int | None:
    """The number in a field; None if the driver does not know the field, or its type is no integer."""
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    name = _MEMBERS.get(field.valueType)
    return None if name is None else int(getattr(field.value, name))


_MEMBERS = {
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}
