"""The figures of GPUs over one or several windows, in the form that autotuners read. Pure.

Readings come from the history of a server, or from whoever reads the GPUs. All are counted here, in the same way.
"""

from collections.abc import Iterable, Sequence

from corral.core.model.answers.gpu_monitoring import GpuMonitoring, GpuStats, MeasuredRange, MeasuredUtilization
from corral.features.history.answers import GpuWindow, SeriesWindow
from corral.features.history.recording.series import SERIES, DeviceReadings

_DECIMALS = 2


def series_of_readings(readings: Sequence[DeviceReadings], window: tuple[float, float]) -> dict[str, SeriesWindow]:
    """Return the series of one GPU from its readings within a window, without its start."""
    since, until = window
    within = [one for one in readings if since < one.at <= until]
    found = {}
    for place, name in enumerate(SERIES):
        known = [(value, one.covered_s) for one in within if (value := one.values[place]) is not None]
        if known:
            values = [value for value, _ in known]
            covered_s = min(sum(each_s for _, each_s in known), until - since)
            found[name] = SeriesWindow(len(values), sum(values), min(values), max(values), covered_s)
    return found


def monitoring_of(windows: Sequence[Sequence[GpuWindow]]) -> GpuMonitoring | None:
    """Return the figures over several windows, each with its GPUs; None without any reading.

    The duration is the time that readings cover, and the count is that of readings, each of the GPU with most of them.
    """
    known: dict[str, list[GpuWindow]] = {}
    for gpu in (gpu for window in windows for gpu in window if gpu.series):
        known.setdefault(gpu.label, []).append(gpu)
    if not known:
        return None
    return GpuMonitoring(
        round(sum(_most(window, "covered_s") for window in windows), 1),
        int(sum(_most(window, "count") for window in windows)),
        {label: _stats_of(gpus) for label, gpus in known.items()},
    )


def _most(window: Iterable[GpuWindow], field: str) -> float:
    return max((float(getattr(one, field)) for gpu in window for one in gpu.series.values()), default=0.0)


def _stats_of(gpus: Sequence[GpuWindow]) -> GpuStats:
    used, memory = _range(gpus, "utilization_pct"), _range(gpus, "memory_used_mib")
    whole_mib = gpus[-1].memory_mib
    return GpuStats(
        name=gpus[-1].name,
        utilization=None if used is None else MeasuredUtilization(used.min, used.max, used.mean, _samples_of(gpus)),
        memory_used_mb=memory,
        memory_usage_percent=None if memory is None or not whole_mib else _in_percent(memory, whole_mib),
        temperature_c=_range(gpus, "temperature_c"),
        power_draw_w=_range(gpus, "power_w"),
    )


def _samples_of(gpus: Sequence[GpuWindow]) -> int:
    return sum(gpu.series["utilization_pct"].count for gpu in gpus if "utilization_pct" in gpu.series)


def _in_percent(memory: MeasuredRange, whole_mib: int) -> MeasuredRange:
    parts = (100 * mib / whole_mib for mib in (memory.min, memory.max, memory.mean))
    return MeasuredRange(*(round(part, _DECIMALS) for part in parts))


def _range(gpus: Sequence[GpuWindow], name: str) -> MeasuredRange | None:
    found = [gpu.series[name] for gpu in gpus if name in gpu.series]
    if not found:
        return None
    mean = sum(one.sum for one in found) / sum(one.count for one in found)
    values = (min(one.min for one in found), max(one.max for one in found), mean)
    return MeasuredRange(*(round(value, _DECIMALS) for value in values))
