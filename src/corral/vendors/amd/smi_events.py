"""Collects the errors of AMD's devices, which the driver reports only as events, with the process that caused them."""

import re
from collections.abc import Mapping
from typing import Any

PAGE_FAULT, RESET = 1, 3
"""The numbers of the events that say something of a device, as amdsmi counts them (VMFAULT, GPU_PRE_RESET)."""

_MOST_AT_ONCE = 64
"""The most events that one pass takes. A program may fault without end, and must not delay the sampling."""

_PROCESS = re.compile(rb"([0-9a-f]{1,8}):")
"""The beginning of what a page fault says: the process. Its name follows, which a user chooses and nobody reads."""

Handle = Any


class AmdEvents:
    """Remembers the newest events of each device. `smi` is the module `amdsmi`."""

    def __init__(self, smi: Any) -> None:
        self._smi = smi
        self._readers: list[Any] = []
        self._uuids: dict[int, str] = {}
        self._new: dict[str, list[tuple[int, int | None]]] = {}

    def listen(self, handles: Mapping[str, Handle]) -> None:
        """Listen to these devices, by UUID, in a session that was just opened."""
        kinds = [self._smi.AmdSmiEvtNotificationType(number) for number in (PAGE_FAULT, RESET)]
        for uuid, handle in handles.items():
            try:
                self._readers.append(self._smi.AmdSmiEventReader(handle, kinds))
            except self._smi.AmdSmiException:
                continue
            self._uuids[handle.value] = uuid

    def collect(self) -> None:
        """Take the events of all devices since the last call. Never waits."""
        if not self._readers:
            return
        reader = self._readers[0]
        for _ in range(_MOST_AT_ONCE):
            try:
                reader.read(0, 1)
            except UnicodeDecodeError:
                # The name of a process may be any bytes. What was read is there all the same.
                pass
            except self._smi.AmdSmiException:
                # There is none. If the driver fails, the readings show it.
                return
            event = reader.event_info[0]
            uuid = self._uuids.get(event.processor_handle)
            if uuid is not None and event.event in (PAGE_FAULT, RESET):
                process = _PROCESS.match(event.message) if event.event == PAGE_FAULT else None
                self._new.setdefault(uuid, []).append((event.event, process and int(process[1], 16)))

    def take(self, uuid: str) -> tuple[tuple[int, int | None], ...]:
        """The events of a device since the last call for it, oldest first: its number, and the process if known."""
        return tuple(self._new.pop(uuid, ()))

    def close(self) -> None:
        """Stop listening, before the session ends. What was not collected is collected."""
        self.collect()
        readers, self._readers, self._uuids = self._readers, [], {}
        for reader in readers:
            try:
                reader.stop()
            except self._smi.AmdSmiException:
                continue
