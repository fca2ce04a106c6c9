"""Recordings of GPUs over time: a thread that samples, and statistics of the samples."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from corral.gpu.reading import GPUInfo

logger = logging.getLogger(__name__)

_KEPT_READINGS = 3_600
"""Readings kept for averages over a window: an hour at one a second."""


@dataclass(slots=True)
class Tally:
    """Minimum, maximum and mean of the readings; all None without readings."""

    count: int = 0
    total: float = 0.0
    least: float | None = None
    most: float | None = None

    def add(self, reading: float | None) -> None:
        """Count a reading; None is not counted."""
        if reading is None:
            return
        self.count += 1
        self.total += reading
        self.least = reading if self.least is None else min(self.least, reading)
        self.most = reading if self.most is None else max(self.most, reading)

    def summary(self) -> dict[str, float | None]:
        """{"min", "max", "mean"} as floats."""
        return {
            "min": None if self.least is None else float(self.least),
            "max": None if self.most is None else float(self.most),
            "mean": self.total / self.count if self.count else None,
        }


@dataclass(slots=True)
class GpuTally:
    """The tallies of one GPU, and its latest utilisations with their times (monotonic seconds)."""

    name: str
    utilization: Tally = field(default_factory=Tally)
    memory_used_mb: Tally = field(default_factory=Tally)
    memory_usage_percent: Tally = field(default_factory=Tally)
    temperature_c: Tally = field(default_factory=Tally)
    power_draw_w: Tally = field(default_factory=Tally)
    latest: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_KEPT_READINGS))

    def add(self, gpu: GPUInfo, at_s: float) -> None:
        """Count one snapshot's readings of this GPU."""
        self.utilization.add(gpu.utilization_percent)
        self.memory_used_mb.add(gpu.memory_used_mb)
        if gpu.memory_used_mb is not None and gpu.memory_total_mb:
            self.memory_usage_percent.add(100 * gpu.memory_used_mb / gpu.memory_total_mb)
        self.temperature_c.add(gpu.temperature_c)
        self.power_draw_w.add(gpu.power_draw_w)
        if gpu.utilization_percent is not None:
            self.latest.append((at_s, gpu.utilization_percent))

    def summary(self) -> dict[str, Any]:
        """The GPU's part of `gpu_stats`."""
        return {
            "name": self.name,
            "utilization": {**self.utilization.summary(), "samples": self.utilization.count},
            "memory_used_mb": self.memory_used_mb.summary(),
            "memory_usage_percent": self.memory_usage_percent.summary(),
            "temperature_c": self.temperature_c.summary(),
            "power_draw_w": self.power_draw_w.summary(),
        }


class Recording:
    """One recording, from construction to `stop`. Its memory use does not grow with its length."""

    def __init__(self, look: Callable[[], Sequence[GPUInfo] | None], interval_s: float) -> None:
        self._look = look
        self._interval_s = interval_s
        self._began_s = time.monotonic()
        self._ended_s: float | None = None
        self._lock = threading.Lock()
        self._tallies: dict[int, GpuTally] = {}
        self._sample_count = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-monitoring", daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, Any]:
        """End it and return its statistics."""
        self._stopping.set()
        self._thread.join(timeout=self._interval_s + 1.0)
        self._ended_s = time.monotonic()
        with self._lock:
            return {
                "monitoring_duration_seconds": self._ended_s - self._began_s,
                "sample_count": self._sample_count,
                "gpu_stats": {str(index): self._tallies[index].summary() for index in sorted(self._tallies)},
            }

    def average_utilization(self, index: int, window_s: float) -> float | None:
        """Mean utilisation of the last `window_s` of the recording, None without a reading in it."""
        since = (self._ended_s or time.monotonic()) - window_s
        with self._lock:
            tally = self._tallies.get(index)
            readings = [reading for at_s, reading in tally.latest if at_s >= since] if tally is not None else []
        return sum(readings) / len(readings) if readings else None

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            try:
                self._sample()
            except Exception:
                logger.exception("cannot sample the GPUs; this sample is missing from the recording")
            due = max(due + self._interval_s, time.monotonic())
            if self._stopping.wait(due - time.monotonic()):
                return

    def _sample(self) -> None:
        gpus = self._look()
        if gpus is None:
            return
        at_s = time.monotonic()
        with self._lock:
            self._sample_count += 1
            for gpu in gpus:
                self._tallies.setdefault(gpu.index, GpuTally(gpu.name)).add(gpu, at_s)
