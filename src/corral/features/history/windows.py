"""Sums the roll-ups of a stretch of time, for each GPU and series. Pure."""

from collections.abc import Sequence

from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.answers import GpuWindow, SeriesWindow
from corral.features.history.recording.job_blocks import SERIES_A_PART, launch_and_part, launch_number
from corral.features.history.recording.readings import TOGETHER
from corral.features.history.recording.rollup import Array, RollUps
from corral.features.history.recording.series import SERIES


def windows_of_job(
    steps: RollUps, attempt: int, devices: Sequence[MonitoredDevice], most_s: float
) -> tuple[GpuWindow, ...]:
    """Return the sums of each GPU of one launch of a job, from its roll-ups (`job_roll_ups_between`).

    `most_s` is the length of the window: readings at its start also cover the time before.
    """
    launch, part = launch_and_part(steps.series)
    ours, series = launch == launch_number(attempt), steps.series % SERIES_A_PART
    return tuple(
        GpuWindow(*device, _sums(steps, ours & (part == number), series, most_s))
        for number, device in enumerate(devices[:TOGETHER])
    )


def window_of_device(steps: RollUps, device: MonitoredDevice, most_s: float) -> GpuWindow:
    """Return the same of one device, from roll-ups of the plain series."""
    return GpuWindow(*device, _sums(steps, steps.start == steps.start, steps.series, most_s))


def _sums(steps: RollUps, wanted: Array, series: Array, most_s: float) -> dict[str, SeriesWindow]:
    found = {}
    for number, name in enumerate(SERIES):
        own = wanted & (series == number)
        if own.any():
            found[name] = SeriesWindow(
                int(steps.count[own].sum()),
                float(steps.total[own].sum()),
                float(steps.least[own].min()),
                float(steps.most[own].max()),
                min(float(steps.covered_s[own].sum()), most_s),
            )
    return found
