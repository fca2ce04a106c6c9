"""Reads from amdsmi what shows whether a device is well. These readings change seldom, so they are taken seldom.

The driver names no recovery action, and numbers no errors. Why it lowers clocks can be asked only by calls that wait.
"""

from collections.abc import Callable
from typing import Any

from corral.core.model.devices.vitals import Vitals

VITALS_AGE_S = 10.0
"""The age after which the readings are taken again."""

Ask = Callable[..., Any]
"""Makes a call; the answer is None if the driver or the device does not give it."""


class AmdVitals:
    """Reads the vitals of devices, and keeps them until they are too old."""

    def __init__(self, smi: Any, ask: Ask) -> None:
        self._smi = smi
        self._ask = ask
        self._last: dict[str, Vitals] = {}

    def read(self, handle: Any, uuid: str, now: float, temperature_c: int | None) -> Vitals:
        """The vitals of a device that is at this temperature, at most `VITALS_AGE_S` old."""
        last = self._last.get(uuid)
        if last is None or not 0 <= now - last.read_at < VITALS_AGE_S:
            last = self._last[uuid] = self._read(handle, now, temperature_c)
        return last

    def _read(self, handle: Any, now: float, temperature_c: int | None) -> Vitals:
        smi, metric = self._smi, self._smi.AmdSmiTemperatureMetric
        pages = self._ask(smi.amdsmi_get_gpu_bad_page_info, handle)
        states = None if pages is None else [page["status"] for page in pages]
        status = smi.AmdSmiMemoryPageStatus
        pcie = self._ask(smi.amdsmi_get_pcie_info, handle) or {"pcie_static": {}, "pcie_metric": {}}
        return Vitals(
            read_at=now,
            remap_pending=None if states is None else status.PENDING in states,
            remap_failed=None if states is None else status.UNRESERVABLE in states,
            remapped_rows=None if states is None else states.count(status.RESERVED),
            below_slowdown_c=self._below(handle, metric.CRITICAL, temperature_c),
            below_shutdown_c=self._below(handle, metric.EMERGENCY, temperature_c),
            pcie_lanes=_positive(pcie["pcie_metric"].get("pcie_width")),
            most_pcie_lanes=_positive(pcie["pcie_static"].get("max_pcie_width")),
            pcie_replays=_number(pcie["pcie_metric"].get("pcie_replay_count")),
            # Errors of links since somebody reset the count: none, one, or more than one.
            link_recoveries=_number(self._ask(smi.amdsmi_gpu_xgmi_error_status, handle)),
        )

    def _below(self, handle: Any, limit: Any, temperature_c: int | None) -> int | None:
        """The degrees below a limit of the hottest part of the device."""
        sensor = self._smi.AmdSmiTemperatureType.HOTSPOT
        limit_c = _positive(self._ask(self._smi.amdsmi_get_temp_metric, handle, sensor, limit))
        return None if limit_c is None or temperature_c is None else limit_c - temperature_c


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _positive(value: Any) -> int | None:
    """A number that a driver which does not know it may give as 0."""
    return _number(value) or None
