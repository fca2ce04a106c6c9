"""Changes of devices as events. They come from samples and observations, not from the journal."""

from collections.abc import Callable, Iterator, Sequence

from corral.clock import Clock
from corral.core.control.events.rows_of_facts import MOST_CHARACTERS, Row, Told
from corral.core.control.querying.listing_rows import standing_of
from corral.core.model.devices.device import Device, DeviceCondition, DeviceSample, throttle_reasons
from corral.core.model.fact import ConditionObserved, Delta
from corral.core.model.view import View
from corral.core.ports.telemetry import Samples


class DeviceSamples:
    """Finds the changes in the newest samples. For one caller at a time."""

    def __init__(self, view: Callable[[], View], telemetry: Samples, clock: Clock) -> None:
        self._view = view
        self._telemetry = telemetry
        self._clock = clock
        self._told: dict[str, tuple[float | None, str]] = {}

    def news(self) -> tuple[Row, ...]:
        """Return a row for each device that changed since the last call, in order of node and index."""
        view, samples = self._view(), self._telemetry.latest()
        rows: list[Row] = []
        told: dict[str, tuple[float | None, str]] = {}
        for name in sorted(view.nodes):
            for device in sorted(view.nodes[name].devices, key=lambda each: (each.index, each.uuid)):
                sample = samples.get(device.uuid)
                state = standing_of(view, name, device)[1].value
                told[device.uuid] = now = (None if sample is None else sample.taken_at, state)
                if self._told.get(device.uuid) != now:
                    rows.append({**_which(name, device, state), **self._readings(sample)})
        self._told = told
        return tuple(rows)

    def _readings(self, sample: DeviceSample | None) -> Row:
        """Return the readings of a sample; a missing reading is None."""
        taken_at = None if sample is None else self._clock.shown(sample.taken_at)
        seen = sample or DeviceSample("", 0.0)
        return {
            "taken_at": taken_at,
            "utilization_pct": seen.utilization_pct,
            "memory_used_mib": seen.memory_used_mib,
            "memory_bandwidth_pct": seen.memory_bandwidth_pct,
            "temperature_c": seen.temperature_c,
            "power_w": None if seen.power_mw is None else seen.power_mw / 1000,
            "sm_clock_mhz": seen.sm_clock_mhz,
            "mem_clock_mhz": seen.mem_clock_mhz,
            "throttled_by": None if seen.throttle is None else throttle_reasons(seen.throttle),
            "xid": seen.xid,
        }


def _which(node: str, device: Device, state: str) -> Row:
    return {"uuid": device.uuid, "node": node, "index": device.index, "state": state}


WELL = "well"


def changes_of_condition(before: View, deltas: Sequence[Delta]) -> Iterator[Told]:
    """Yield the changes of condition of devices since `before`. Devices with the same new condition are in one event.

    A change of the reason alone is no event: the reason may contain a number that changes with each sample.
    """
    latest = {delta.condition.uuid: delta.condition for delta in deltas if isinstance(delta, ConditionObserved)}
    rows: dict[str, list[Row]] = {}
    for uuid, condition in latest.items():
        what = _kind_of(condition)
        if what != _kind_of(before.conditions.get(uuid)):
            reason = (condition.unreadable or condition.unhealthy or "")[:MOST_CHARACTERS] or None
            rows.setdefault(what, []).append({"uuid": uuid, "reason": reason})
    for what, of_devices in rows.items():
        yield Told(what, tuple(of_devices))


def _kind_of(condition: DeviceCondition | None) -> str:
    """Return the kind of a condition. A device that was never sampled counts as well."""
    if condition is None:
        return WELL
    if condition.unreadable is not None:
        return "unreadable"
    return WELL if condition.unhealthy is None else "unhealthy"
