"""Reads from amdsmi what shows whether a device is well. These readings change seldom, so they are taken seldom.

The driver names no recovery action.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from corral.core.model.devices.device import CLOCK_REASONS
from corral.core.model.devices.vitals import Vitals

VITALS_AGE_S = 10.0
"""The age after which the readings are taken again."""

_GENERATIONS = {2500: 1, 5000: 2, 8000: 3, 16000: 4, 32000: 5, 64000: 6}
"""The generation of a PCIe link by its speed in MT/s."""

_LOWERED_BY = {
    "ppt_residency_acc": "power_cap",
    "prochot_residency_acc": "hw_slowdown",
    "socket_thm_residency_acc": "sw_thermal",
    "vr_thm_residency_acc": "sw_thermal",
    "hbm_thm_residency_acc": "sw_thermal",
}
"""The counters of how long something kept the clocks low, by the name of the reason. All count in the steps of
`accumulation_counter`. Heat lowers AMD's clocks step by step, as NVIDIA's software does; PROCHOT is a wire that the
board pulls. Devices before the MI300 have no such counters.
"""

Ask = Callable[..., Any]
"""Makes a call; the answer is None if the driver or the device does not give it."""


class SeldomRead(NamedTuple):
    """The vitals of a device, and NVML's bits of what kept its clocks low for most of the time since the last reading;
    None if the device does not count it.
    """

    vitals: Vitals
    throttle: int | None


class AmdVitals:
    """Reads the vitals of devices, and keeps them until they are too old."""

    def __init__(self, smi: Any, ask: Ask) -> None:
        self._smi = smi
        self._ask = ask
        self._last: dict[str, SeldomRead] = {}
        self._best_generation: dict[str, int] = {}
        self._lowered: dict[str, Mapping[str, int]] = {}

    def read(self, handle: Any, uuid: str, now: float, temperature_c: int | None) -> SeldomRead:
        """The readings of a device that is at this temperature, at most `VITALS_AGE_S` old."""
        last = self._last.get(uuid)
        if last is None or not 0 <= now - last.vitals.read_at < VITALS_AGE_S:
            vitals = self._read(handle, uuid, now, temperature_c)
            last = self._last[uuid] = SeldomRead(vitals, self._throttle(handle, uuid))
        return last

    def _throttle(self, handle: Any, uuid: str) -> int | None:
        told = self._ask(self._smi.amdsmi_get_gpu_metrics_info, handle) or {}
        names = ("accumulation_counter", *_LOWERED_BY)
        counts = {name: count for name in names if (count := _number(told.get(name))) is not None}
        before, self._lowered[uuid] = self._lowered.get(uuid, {}), counts
        grown = {name: count - before[name] for name, count in counts.items() if name in before}
        steps = grown.pop("accumulation_counter", 0)
        if steps <= 0 or not grown:
            return None
        bits = 0
        for name, lowered in grown.items():
            if 2 * lowered > steps:
                bits |= CLOCK_REASONS[_LOWERED_BY[name]]
        return bits

    def _read(self, handle: Any, uuid: str, now: float, temperature_c: int | None) -> Vitals:
        smi, metric = self._smi, self._smi.AmdSmiTemperatureMetric
        pages = self._ask(smi.amdsmi_get_gpu_bad_page_info, handle)
        states = None if pages is None else [page["status"] for page in pages]
        status = smi.AmdSmiMemoryPageStatus
        pcie = self._ask(smi.amdsmi_get_pcie_info, handle) or {"pcie_static": {}, "pcie_metric": {}}
        generation = _GENERATIONS.get(pcie["pcie_metric"].get("pcie_speed"))
        if generation is not None:
            # The driver names the best of the device, which its slot may not have. A slower slot is no fault.
            self._best_generation[uuid] = max(generation, self._best_generation.get(uuid, 0))
        return Vitals(
            read_at=now,
            remap_pending=None if states is None else status.PENDING in states,
            remap_failed=None if states is None else status.UNRESERVABLE in states,
            remapped_rows=None if states is None else states.count(status.RESERVED),
            below_slowdown_c=self._below(handle, metric.CRITICAL, temperature_c),
            below_shutdown_c=self._below(handle, metric.EMERGENCY, temperature_c),
            pcie_lanes=_positive(pcie["pcie_metric"].get("pcie_width")),
            most_pcie_lanes=_positive(pcie["pcie_static"].get("max_pcie_width")),
            pcie_generation=generation,
            best_pcie_generation=self._best_generation.get(uuid),
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
