"""The figures of one run of a job, from the roll-ups of its history."""

from collections.abc import Sequence

from corral.core.model.answers.gpu_monitoring import GpuMonitoring, GpuStats, MeasuredRange, MeasuredUtilization
from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.recording.job_blocks import SERIES_A_PART, launch_and_part, launch_number
from corral.features.history.recording.readings import TOGETHER
from corral.features.history.recording.rollup import RollUps, selected
from corral.features.history.recording.series import SERIES

_DECIMALS = 2


def monitoring_of(steps: RollUps, attempt: int, devices: Sequence[MonitoredDevice]) -> GpuMonitoring | None:
    """Return the figures of one launch from a job's roll-ups (`job_roll_ups_between`); None if it was not measured."""
    launch, part = launch_and_part(steps.series)
    duration_s, samples, stats = 0.0, 0, {}
    for number, device in enumerate(devices[:TOGETHER]):
        own = selected(steps, (launch == launch_number(attempt)) & (part == number))
        if not len(own):
            continue
        series = {name: selected(own, own.series % SERIES_A_PART == place) for place, name in enumerate(SERIES)}
        stats[device.label] = _stats_of(series, device)
        duration_s = max(duration_s, *(float(one.covered_s.sum()) for one in series.values()))
        samples = max(samples, *(int(one.count.sum()) for one in series.values()))
    return GpuMonitoring(round(duration_s, 1), samples, stats) if stats else None


def _stats_of(series: dict[str, RollUps], device: MonitoredDevice) -> GpuStats:
    used, memory = _range(series["utilization_pct"]), _range(series["memory_used_mib"])
    return GpuStats(
        name=device.name,
        utilization=(
            None
            if used is None
            else MeasuredUtilization(used.min, used.max, used.mean, int(series["utilization_pct"].count.sum()))
        ),
        memory_used_mb=memory,
        memory_usage_percent=(
            None
            if memory is None or not device.memory_mib
            else MeasuredRange(
                *(round(100 * mib / device.memory_mib, _DECIMALS) for mib in (memory.min, memory.max, memory.mean))
            )
        ),
        temperature_c=_range(series["temperature_c"]),
        power_draw_w=_range(series["power_w"]),
    )


def _range(steps: RollUps) -> MeasuredRange | None:
    if not len(steps):
        return None
    mean = float(steps.total.sum() / steps.count.sum())
    return MeasuredRange(
        *(round(value, _DECIMALS) for value in (float(steps.least.min()), float(steps.most.max()), mean))
    )
