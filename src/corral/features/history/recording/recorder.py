"""Hears the samples of all devices, and writes their history in batches."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from corral.clock import Clock
from corral.core.model.devices.device import DeviceSample
from corral.core.model.errors import BackendFailed
from corral.core.model.view import View
from corral.features.history.recording.file import Block, HistoryFile
from corral.features.history.recording.levels import HistoryLevel
from corral.features.history.recording.readings import jobs_key, new_readings
from corral.features.history.recording.series import covered_s
from corral.features.history.recording.unwritten import Unwritten

if TYPE_CHECKING:
    from corral.features.history.recording.rollup import RollUps

logger = logging.getLogger(__name__)

WRITE_INTERVAL_S = 60.0
"""The interval of writes. Later readings are in memory, and lost if the server is killed."""

_FORGET_INTERVAL_S = 600.0
_AT_ONCE = 20
"""The number of devices or groups in a transaction: a question meanwhile waits for no more than these."""


class HistoryRecorder:
    """Takes each new sample (`look`), and writes the readings every `WRITE_INTERVAL_S`.

    `look` and `close` are called on one thread; questions and `catch_up` come from any thread. If the disk is full or
    fails, only the history stops. Each write tries again, and the log says so once.
    """

    def __init__(
        self,
        file: HistoryFile,
        latest: Callable[[], Mapping[str, DeviceSample]],
        clock: Clock,
        levels: Sequence[HistoryLevel],
        interval_s: float,
        *,
        view: Callable[[], View] = View,
    ) -> None:
        """`interval_s` is the sampling interval of the devices; `view` returns the holders of devices."""
        self.levels = tuple(levels)
        self.interval_s = interval_s
        self._file = file
        self._latest = latest
        self._view = view
        self._clock = clock
        self._lock = threading.Lock()
        self._taking = threading.Lock()
        self._waiting = Unwritten()
        self._last_at: dict[str, float] = {}
        self._write_at = clock.monotonic() + WRITE_INTERVAL_S
        self._forget_at = clock.monotonic()
        self._stopped: str | None = None

    @property
    def stopped(self) -> str | None:
        """Why nothing is written since the last try, None while it is. Safe on any thread."""
        return self._stopped

    def look(self) -> None:
        """Take new samples, and write when it is time."""
        full = self._take()
        now = self._clock.monotonic()
        if now >= self._write_at or (full and self._stopped is None):
            self._write_at = now + WRITE_INTERVAL_S
            self.write()

    def catch_up(self) -> None:
        """Take the newest samples, for a question about this moment. Thread-safe."""
        self._take()

    def write(self) -> None:
        """Write all waiting readings, and delete those past their retention."""
        try:
            keys = iter([*self._waiting.named, *self._waiting.jobs])
            while some := list(islice(keys, _AT_ONCE)):
                with self._lock:
                    self._file.write([block for key in some for block in self._blocks(key)], self._waiting.highest_job)
                    for key in some:
                        self._waiting.done(key)
                # Writing many devices takes longer than the sampling interval.
                self._take()
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
        """Write the waiting readings, and close the file."""
        self.write()
        self._file.close()

    def knows(self, key: str) -> bool:
        """Return whether this device or group has any history."""
        return key.removeprefix("device:") in self._last_at or key in self._waiting.named or self._file.knows(key)

    def roll_ups(self, key: str, level: HistoryLevel, span: tuple[int, int], series: Sequence[int]) -> "RollUps":
        """Return the roll-ups of some series of a device or group in a span without its end, at a level.

        Some may be of one step. Raises BackendFailed if the file cannot be read.
        """
        from corral.features.history.recording.merging import roll_ups_between

        with self._lock:
            waiting = self._waiting.named.get(key, ())
            return roll_ups_between(self._file, level, key, waiting, span=span, series=series)

    def job_roll_ups(self, sequence: int, level: HistoryLevel, span: tuple[int, int]) -> "RollUps":
        """The same of all series of the job of this number, of each launch and device (`job_blocks`)."""
        from corral.features.history.recording.job_blocks import job_roll_ups_between

        with self._lock:
            waiting = self._waiting.jobs.get(jobs_key(sequence), ())
            return job_roll_ups_between(self._file, level, sequence, waiting, span=span)

    def _take(self) -> bool:
        """Take the new samples. Return whether so many readings wait that they should be written."""
        with self._taking:
            return self._take_new()

    def _take_new(self) -> bool:
        fresh: dict[str, float] = {}
        samples = self._latest()
        for uuid, sample in samples.items():
            before = self._last_at.get(uuid)
            if sample.taken_at == before or sample.fault is not None:
                continue
            self._last_at[uuid] = sample.taken_at
            fresh[uuid] = covered_s(sample.taken_at, before, self.interval_s)
        if not fresh:
            return False
        # The view is newer than the samples: a holder both at the sample and in the view held the device all along.
        new = new_readings(self._view(), samples, fresh, self.interval_s)
        with self._lock:
            return self._waiting.add(new, len(self._last_at))

    def _blocks(self, key: str) -> list[Block]:
        """Return the readings that wait under this key as blocks to write."""
        # Imported here: they load numpy, and the start of a server must not wait for that.
        from corral.features.history.recording.job_blocks import job_blocks_with
        from corral.features.history.recording.merging import blocks_with

        if key in self._waiting.jobs:
            return list(job_blocks_with(self._file, self.levels, key, self._waiting.jobs[key]))
        return blocks_with(self._file, self.levels, key, self._waiting.named[key])

    def _forget(self) -> None:
        now = self._clock.now()
        self._forget_at = self._clock.monotonic() + _FORGET_INTERVAL_S
        ends = [(level.step_s, int(now - level.kept_s - level.block_s)) for level in self.levels]
        with self._lock:
            self._file.forget(ends, [level.step_s for level in self.levels])
