"""Logs changes of devices: a line per change, and few lines for a device that keeps changing."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from corral.core.model.devices.device import Device, DeviceCondition, DeviceState
from corral.core.model.units import format_duration

MOST_CHANGES = 6
WINDOW_S = 600.0
"""After this many logged changes within the window a device is logged again only once it was unchanged for as long."""

_ILL = (DeviceState.UNREADABLE, DeviceState.UNHEALTHY)
_BACK = {DeviceState.UNREADABLE: "can be read again", DeviceState.UNHEALTHY: "well again"}
_MOST_NAMED = 3
_NUMBERS = re.compile(r"\d+")

State = tuple[DeviceState, str]
"""The state of a device, and its reason without numbers, which change from sample to sample."""

_WELL: State = (DeviceState.FREE, "")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Logged:
    """A device as of the last round; times in monotonic seconds."""

    state: State = _WELL
    since_s: float = 0.0
    logged_at_s: tuple[float, ...] = ()
    unlogged: int = 0

    def keeps_changing(self, now_s: float) -> bool:
        """Return whether the device reached the limit of logged changes."""
        return len(self.logged_at_s) == MOST_CHANGES and now_s - self.logged_at_s[0] < WINDOW_S


class StateLog:
    """Compares devices from round to round, and logs the changes. Not thread-safe."""

    def __init__(self, node: str | None = None) -> None:
        """`node` precedes the devices' indices if there are several nodes."""
        self._prefix = "" if node is None else f"{node}:"
        self._devices: dict[str, _Logged] | None = None
        self._names: dict[str, str] = {}

    def look(self, devices: Mapping[str, Device], conditions: Mapping[str, DeviceCondition], now_s: float) -> None:
        """Log the changes since the last round; in the first round, the devices that are not well. Equal changes
        share a line.
        """
        known = self._inventory(devices, now_s)
        lines: dict[tuple[int, str], list[str]] = {}
        for uuid, condition in conditions.items():
            state, device = _state_of(condition), known[uuid]
            whole = conditions.get(devices[uuid].parent_uuid or "")
            if whole is not None and state[0] in _ILL and _state_of(whole)[0] is state[0]:
                continue  # the line about its parent device suffices
            line = self._line(device, state, condition, now_s)
            if line is not None:
                lines.setdefault(line, []).append(self._names[uuid])
        for (level, words), names in lines.items():
            logger.log(level, "GPU %s: %s", ", ".join(names), words)

    def _inventory(self, devices: Mapping[str, Device], now_s: float) -> dict[str, _Logged]:
        """Return the log state of each current device. Devices that appeared or vanished are logged."""
        first, known = self._devices is None, self._devices or {}
        for uuid in known.keys() - devices.keys():
            logger.warning("GPU %s is gone: the driver no longer names it", self._names[uuid])
        self._names = {uuid: f"{self._prefix}{device.index} ({uuid})" for uuid, device in devices.items()}
        for uuid in [] if first else [uuid for uuid in devices if uuid not in known]:
            logger.info("GPU %s is new", self._names[uuid])
        self._devices = {uuid: known.get(uuid) or _Logged(since_s=now_s) for uuid in devices}
        return self._devices

    def _line(self, device: _Logged, state: State, condition: DeviceCondition, now_s: float) -> tuple[int, str] | None:
        """Return the level and text to log for the device, None if there is nothing to log."""
        was, lasted_s = device.state, now_s - device.since_s
        level = logging.WARNING if state[0] in _ILL else logging.INFO
        if state == was:
            if not device.unlogged or lasted_s < WINDOW_S:
                return None
            calm = f"so for {format_duration(lasted_s)}, after {device.unlogged} changes that were not logged"
            device.unlogged = 0
            device.logged_at_s = ()
            return level, f"{_now(state[0], condition)}; {calm}"
        device.state, device.since_s = state, now_s
        if device.keeps_changing(now_s):
            device.unlogged += 1
            return None
        device.logged_at_s = (*device.logged_at_s, now_s)[-MOST_CHANGES:]
        words = _now(state[0], condition)
        if was[0] in _ILL and state[0] not in _ILL:
            words = f"{_BACK[was[0]]} after {format_duration(lasted_s)}" + (f", {words}" if condition.strangers else "")
        elif was[0] is DeviceState.IN_USE and state == _WELL:
            words = "nobody else uses it any more"
        if device.keeps_changing(now_s):
            words += (
                f"; it keeps changing, and is logged again after it has been stable for {format_duration(WINDOW_S)}"
            )
        return level, words


def _state_of(condition: DeviceCondition) -> State:
    """Return the state of the device by its condition alone; cordons and jobs do not matter here."""
    if condition.unreadable is not None:
        return DeviceState.UNREADABLE, _NUMBERS.sub("", condition.unreadable)
    if condition.unhealthy is not None:
        return DeviceState.UNHEALTHY, _NUMBERS.sub("", condition.unhealthy)
    return (DeviceState.IN_USE, "") if condition.strangers else _WELL


def _now(state: DeviceState, condition: DeviceCondition) -> str:
    if state in _ILL:
        return f"{state}: {condition.unreadable or condition.unhealthy}; nothing starts on it"
    if state is DeviceState.FREE:
        return "well"
    who = ", ".join(f"{process.owner or '?'}/{process.pid}" for process in condition.strangers[:_MOST_NAMED])
    more = len(condition.strangers) - _MOST_NAMED
    return f"in use by {who}{f' and {more} more' if more > 0 else ''}, which Corral did not start"
