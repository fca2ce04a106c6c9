"""Reads GPUs again and again on a thread, where no server records them."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.recording.series import SERIES, DeviceReadings, covered_s

log = logging.getLogger("corral.tuner")

MOST_READINGS = 20_000
"""The most readings that are kept of a GPU: five hours at one a second. The oldest are dropped, and not covered."""

_LET_GO_S = 0.2

Values = Mapping[str, float | None]
"""The readings of one GPU by series."""

ReadGpus = Mapping[MonitoredDevice, Sequence[DeviceReadings]]
"""The readings of each GPU in a window."""


class _Taken(NamedTuple):
    """A reading, and when it was begun (Unix seconds): a source may take a while."""

    begun_at: float
    reading: DeviceReadings


class GpuSampler:
    """Keeps the readings of GPUs from its construction to `close`, for windows of that time."""

    def __init__(self, read: Callable[[], Mapping[MonitoredDevice, Values]], every_s: float) -> None:
        """`read` returns the GPUs that can be read now. Its errors are logged, and this reading is missing."""
        self._read = read
        self._every_s = every_s
        self._lock = threading.Lock()
        self._gpus: dict[str, MonitoredDevice] = {}
        self._readings: dict[str, deque[_Taken]] = {}
        self._complained: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)
        self._thread.start()

    def readings(self, began_at: float, ended_at: float) -> ReadGpus:
        """Return the readings that were begun and taken between these times (Unix seconds), of each GPU with some."""
        with self._lock:
            found = {
                self._gpus[label]: [
                    taken.reading for taken in kept if taken.begun_at > began_at and taken.reading.at <= ended_at
                ]
                for label, kept in sorted(self._readings.items())
            }
        return {gpu: readings for gpu, readings in found.items() if readings}

    def close(self) -> None:
        """End the thread. A reading that takes long is not waited for."""
        self._stopping.set()
        self._thread.join(_LET_GO_S)

    def _run(self) -> None:
        while True:
            began_s, begun_at = time.monotonic(), time.time()
            try:
                found = self._read()
            except Exception as error:
                found = {}
                if str(error) != self._complained and not self._stopping.is_set():
                    log.warning("GPUs are not read: %s", error)
                self._complained = str(error)
            self._keep(found, begun_at, time.time())
            if self._stopping.wait(max(0.0, began_s + self._every_s - time.monotonic())):
                return

    def _keep(self, found: Mapping[MonitoredDevice, Values], begun_at: float, at: float) -> None:
        with self._lock:
            for gpu, values in found.items():
                kept = self._readings.setdefault(gpu.label, deque(maxlen=MOST_READINGS))
                covers_s = covered_s(at, kept[-1].reading.at if kept else None, self._every_s)
                reading = DeviceReadings(at, covers_s, tuple(values.get(name) for name in SERIES))
                kept.append(_Taken(begun_at, reading))
                self._gpus[gpu.label] = gpu
