"""The monitor of this host's GPUs: cached snapshots, and recordings."""

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from corral.client.submitting.arguments import flag, number, optional, whole
from corral.core.model.errors import Refused
from corral.gpu.lock_files import is_leased
from corral.gpu.reading import GPUInfo, Sight, by_score
from corral.gpu.recording import Recording

CACHE_TTL_S = 5.0


@dataclass
class GPUSnapshot:
    """All GPUs of this host at one moment (UTC)."""

    timestamp: datetime
    gpus: list[GPUInfo]


class GPUMonitor:
    """Reads the GPUs of this host; thread-safe. `get_gpu_monitor` returns the monitor of this process.

    With a Corral server on this host it reads the server's listing, and GPUs that the server has allocated count as not
    available. Without a server it asks the driver. Without a driver nothing raises: there are no GPUs, and one line in
    the log says why.
    """

    def __init__(self) -> None:
        self._sight = Sight()
        self._lock = threading.Lock()
        self._cached: GPUSnapshot | None = None
        self._cached_at_s = 0.0
        self._recording: Recording | None = None
        self._recording_on = False

    def is_available(self) -> bool:
        """Return whether this host has GPUs that can be read."""
        return self.query_gpus() is not None

    def query_gpus(self, use_cache: bool = True) -> GPUSnapshot | None:
        """Return the GPUs now, or from at most 5 s ago; None if there are none.

        `use_cache=False` always reads anew and puts the result into the cache.
        """
        use_cache = flag(use_cache, "use_cache")
        with self._lock:
            fresh = self._cached is not None and time.monotonic() - self._cached_at_s < CACHE_TTL_S
            if use_cache and fresh:
                return self._cached
        gpus = self._sight.look()
        snapshot = None if gpus is None else GPUSnapshot(datetime.now(UTC), gpus)
        with self._lock:
            self._cached, self._cached_at_s = snapshot, time.monotonic()
        return snapshot

    def get_available_gpus(self, min_memory_mb: int | None = None, max_utilization: int = 50) -> list[int]:
        """Return the indices of the GPUs with this much free memory and at most this utilization (percent), best score
        first.

        A GPU is not available if it could not be read, or if a job, a lease or an administrator has it. It always reads
        anew: a GPU that was free some seconds ago may be taken by now.
        """
        min_memory_mb = optional(whole, min_memory_mb, "min_memory_mb", "8000")
        most_percent = number(max_utilization, "max_utilization", "50")
        snapshot = self.query_gpus(use_cache=False)
        gpus = [] if snapshot is None else snapshot.gpus
        return [gpu.index for gpu in by_score(gpus) if why_not(gpu, min_memory_mb, most_percent) is None]

    def get_gpu_info(self, gpu_index: int) -> GPUInfo | None:
        """Return the GPU of this index, or None."""
        wanted = whole(gpu_index, "gpu_index", "0")
        snapshot = self.query_gpus()
        return next((gpu for gpu in snapshot.gpus if gpu.index == wanted), None) if snapshot is not None else None

    def start_monitoring(self, interval_seconds: float = 1.0) -> None:
        """Start recording, one sample every `interval_seconds`. Earlier recordings are dropped."""
        interval_seconds = number(interval_seconds, "interval_seconds")
        if interval_seconds <= 0:
            raise Refused(
                f"interval_seconds: {interval_seconds} is not an interval; it must be above 0",
                field="interval_seconds",
            )
        self.stop_monitoring()
        with self._lock:
            self._cached = None
            self._recording = Recording(self._sight.look, interval_seconds)
            self._recording_on = True

    def stop_monitoring(self) -> dict[str, Any] | None:
        """End the recording and return its statistics; None if there was none.

        {"monitoring_duration_seconds", "sample_count", "gpu_stats": {"0": {"name", "utilization": {"min", "max",
        "mean", "samples"}, "memory_used_mb": {"min", "max", "mean"}, "memory_usage_percent", "temperature_c",
        "power_draw_w"}}}; values that could never be read are None.
        """
        with self._lock:
            recording = self._recording if self._recording_on else None
            self._recording_on = False
            self._cached = None
        return None if recording is None else recording.stop()

    def get_average_utilization(self, index: int, window_seconds: float = 60) -> float | None:
        """Return the mean utilisation (percent) over the last `window_seconds` of the recording; None without a reading
        there.

        It uses the latest recording, running or ended, which keeps 3,600 samples for this.
        """
        index, window_seconds = (
            whole(index, "index", "0"),
            number(window_seconds, "window_seconds", "60", infinite=True),
        )
        recording = self._recording
        return None if recording is None else recording.average_utilization(index, window_seconds)


_MONITOR = GPUMonitor()


def get_gpu_monitor() -> GPUMonitor:
    """Return the monitor of this process, the same at every call and in every thread."""
    return _MONITOR


def why_not(gpu: GPUInfo, min_memory_mb: int | None, max_utilization: float) -> str | None:
    """Why a GPU is not available, None if it is."""
    if gpu.taken is not None:
        return gpu.taken
    if not gpu.readable:
        return "its memory or its utilisation cannot be read"
    assert gpu.utilization_percent is not None
    assert gpu.memory_free_mb is not None
    if gpu.utilization_percent > max_utilization:
        return f"{gpu.utilization_percent} % in use"
    if min_memory_mb is not None and gpu.memory_free_mb < min_memory_mb:
        return f"{gpu.memory_free_mb} MB free"
    return "leased by another process" if is_leased(gpu.uuid) else None
