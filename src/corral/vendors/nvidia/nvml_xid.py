"""Collects the Xid errors of devices, which NVML reports only as events."""

import ctypes
from collections.abc import Mapping

import pynvml

from corral.vendors.nvidia.nvml_calls import DeviceLost, SessionEnded, ask
from corral.vendors.nvidia.nvml_devices_and_slices import Handle

_MOST_AT_ONCE = 256
"""The most events that one pass takes. A device with endless errors must not delay the sampling."""


class XidEvents:
    """Remembers the last Xid of each device that supports events, also across sessions, and the newest ones."""

    def __init__(self) -> None:
        self._events: ctypes.c_void_p | None = None
        self._uuids: dict[int, str] = {}
        self._last: dict[str, int] = {}
        self._new: dict[str, list[int]] = {}

    def listen(self, handles: Mapping[str, Handle]) -> None:
        """Listen to these devices, by UUID, in a session that was just opened."""
        self._uuids = {}
        self._events = ask(pynvml.nvmlEventSetCreate)
        if self._events is None:
            return
        for uuid, handle in handles.items():
            try:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
            except pynvml.NVMLError:
                continue
            self._uuids[_address(handle)] = uuid
            self._last.setdefault(uuid, 0)

    def collect(self) -> None:
        """Take the events since the last call. Never waits. Raises SessionEnded."""
        if not self._uuids:
            return
        for _ in range(_MOST_AT_ONCE):
            try:
                event = ask(pynvml.nvmlEventSetWait_v2, self._events, 0)
            except DeviceLost:
                # The readings of the device show that it is lost.
                return
            if event is None:
                return
            uuid = self._uuids.get(_address(event.device))
            if uuid is not None and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                self._last[uuid] = event.eventData
                self._new.setdefault(uuid, []).append(event.eventData)

    def take(self, uuid: str) -> tuple[int, ...]:
        """The Xids of a device since the last call for it, oldest first."""
        return tuple(self._new.pop(uuid, ()))

    def last(self, uuid: str) -> int | None:
        """The last Xid of a device; 0 before the first; None if its events are not available."""
        return self._last[uuid] if uuid in self._uuids.values() else None

    def close(self) -> None:
        """Stop listening to all devices."""
        events, self._events, self._uuids = self._events, None, {}
        if events is not None:
            try:
                ask(pynvml.nvmlEventSetFree, events)
            except (DeviceLost, SessionEnded):
                return


def _address(handle: Handle) -> int:
    """The address of a handle's device in the driver's library. All handles of one device have the same address."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
