"""Hears the samples of all devices, and writes their history in batches."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from corral.clock import Clock
from corral.history.file import HistoryFile
from corral.history.levels import HistoryLevel
from corral.history.series import DeviceReadings, covered_s, readings_of
from corral.model.device import DeviceSample
from corral.model.errors import BackendFailed

if TYPE_CHECKING:
    from corral.history.rollup import RollUps

logger = logging.getLogger(__name__)

WRITE_INTERVAL_S = 60.0
"""Readings are written so often; those since then are in memory, and lost if the server is killed."""

_FORGET_INTERVAL_S = 600.0
_MOST_WAITING = 600
"""So many readings of a device wait to be written while the disk is full; then the oldest go."""

_AT_ONCE = 20
"""The devices of one transaction: whoever asks for a history meanwhile waits for no more than these."""


class HistoryRecorder:
    """Takes each new sample (`look`), and writes what it took every `WRITE_INTERVAL_S`.

    `look` and `close` are called on one thread; what is asked comes from any. When the disk is full or fails the
    history alone stops, is tried again at each write, and the log says so once.
    """

    def __init__(
        self,
        file: HistoryFile,
        latest: Callable[[], Mapping[str, DeviceSample]],
        clock: Clock,
        levels: Sequence[HistoryLevel],
        interval_s: float,
    ) -> None:
        """`interval_s` is how often the devices are sampled."""
        self.levels = tuple(levels)
        self.interval_s = interval_s
        self._file = file
        self._latest = latest
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[DeviceReadings]] = {}
        self._last_at: dict[str, float] = {}
        self._write_at = clock.monotonic() + WRITE_INTERVAL_S
        self._forget_at = clock.monotonic()
        self._stopped: str | None = None

    @property
    def stopped(self) -> str | None:
        """Why nothing is written since the last try, None while it is. Safe on any thread."""
        return self._stopped

    def look(self) -> None:
        """Take what is new, and write when it is time."""
        full = self._take()
        now = self._clock.monotonic()
        if now >= self._write_at or (full and self._stopped is None):
            self._write_at = now + WRITE_INTERVAL_S
            self.write()

    def write(self) -> None:
        """Write everything that waits, and delete what is past its time."""
        # It loads numpy, which a server that starts is not to wait for.
        from corral.history.merging import blocks_with

        try:
            devices = iter([device for device, waiting in self._waiting.items() if waiting])
            while some := list(islice(devices, _AT_ONCE)):
                with self._lock:
                    self._file.write(
                        [
                            block
                            for device in some
                            for block in blocks_with(self._file, self.levels, device, self._waiting[device])
                        ]
                    )
                    for device in some:
                        self._waiting[device].clear()
            if self._clock.monotonic() >= self._forget_at:
                self._forget()
        except BackendFailed as error:
            if self._stopped is None:
                logger.error("the history of devices is not written: %s; it is tried again each minute", error)
            self._stopped = str(error)
            return
        if self._stopped is not None:
            logger.warning("the history of devices is written again")
        self._stopped = None

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.write()
        self._file.close()

    def knows(self, device: str) -> bool:
        """Whether anything was ever heard of this device."""
        return device in self._last_at or self._file.knows(device)

    def roll_ups(self, device: str, level: HistoryLevel, span: tuple[int, int], series: Sequence[int]) -> "RollUps":
        """What is known of some series of a device in a span without its end, at a level; some may be of one step.

        Raises BackendFailed when the file cannot be read.
        """
        from corral.history.merging import roll_ups_between

        with self._lock:
            return roll_ups_between(self._file, level, device, self._waiting.get(device, ()), span=span, series=series)

    def _take(self) -> bool:
        """Take the new samples. Whether a device has so many waiting that they should be written."""
        full = False
        for uuid, sample in self._latest().items():
            before = self._last_at.get(uuid)
            if sample.taken_at == before or sample.fault is not None:
                continue
            self._last_at[uuid] = sample.taken_at
            covered = covered_s(sample.taken_at, before, self.interval_s)
            with self._lock:
                waiting = self._waiting.setdefault(uuid, deque(maxlen=_MOST_WAITING))
                waiting.append(DeviceReadings(sample.taken_at, covered, readings_of(sample)))
            full = full or len(waiting) >= _MOST_WAITING // 2
        return full

    def _forget(self) -> None:
        now = self._clock.now()
        self._forget_at = self._clock.monotonic() + _FORGET_INTERVAL_S
        ends = [(level.step_s, int(now - level.kept_s - level.block_s)) for level in self.levels]
        with self._lock:
            self._file.forget(ends, [level.step_s for level in self.levels])
