"""Answers questions about the history of a device, job, node, user or project."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from corral.clock import Clock
from corral.core.model.answers.gpu_monitoring import GpuMonitoring
from corral.core.model.errors import BackendFailed, NotFound, Refused, nearest
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Allocation
from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.answers import (
    DeviceHistory,
    GpuWindow,
    GpuWindows,
    GroupHistory,
    HistoryPoint,
    JobGpuHistory,
    JobGpusHistory,
    JobHistory,
)
from corral.features.history.monitoring import monitoring_of
from corral.features.history.recording.levels import HistoryLevel, choose, steps_within
from corral.features.history.recording.readings import device_key, group_key
from corral.features.history.recording.recorder import HistoryRecorder
from corral.features.history.recording.series import SERIES
from corral.features.history.spans import span_of

if TYPE_CHECKING:
    from corral.features.history.recording.rollup import RollUps

DEFAULT_RANGE = "1h"

MOST_GPUS_APART = 16
"""The most GPUs of a job with separate lines. A job with more shows the spread over them."""

Group = Literal["node", "user", "project"]
"""Groups with a history of their own, over all their devices."""

_WHERE_TO_LOOK = {
    "node": "; `corral nodes` shows the nodes",
    "user": ": no job of theirs had a GPU since the history began; `corral usage` shows the users",
    "project": ": no job of it had a GPU since the history began; `corral usage --by project` shows the projects",
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parts of an answer, and the `level` and the `span` to read for it, in the ledger's time."""

    names: tuple[str, ...]
    start: int
    end: int
    level: HistoryLevel
    step_s: int
    span: tuple[int, int]


class HistoryQueries:
    """Reads the history. Times of questions and answers are of the wall clock."""

    def __init__(self, recorder: HistoryRecorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    def device(
        self,
        uuid: str,
        *,
        range_name: str | None = None,
        start: int | None = None,
        end: int | None = None,
        series: Sequence[str] = (),
    ) -> DeviceHistory:
        """Return the series (all, if none is named) of a device, even of a device that is gone.

        Raises NotFound for a device without any history, Refused for an invalid range or series, and BackendFailed if
        the history cannot be read.
        """
        asked = self._asked(range_name, start, end, series)
        key = self._known(uuid)
        found = self._recorder.roll_ups(key, asked.level, asked.span, [SERIES.index(name) for name in asked.names])
        return DeviceHistory(uuid, asked.start, asked.end, asked.step_s, self._points(found, asked))

    def group(
        self,
        kind: Group,
        name: str,
        *,
        range_name: str | None = None,
        start: int | None = None,
        end: int | None = None,
        series: Sequence[str] = (),
    ) -> GroupHistory:
        """The same of all devices of a node, or of all that the jobs of a user or project had. Raises as `device`."""
        asked = self._asked(range_name, start, end, series)
        key = group_key(kind, name)
        if not self._recorder.knows(key):
            raise NotFound(f"there is no history of a {kind} {name!r:.80}{_WHERE_TO_LOOK[kind]}")
        found = self._recorder.roll_ups(key, asked.level, asked.span, [SERIES.index(name) for name in asked.names])
        return GroupHistory(name, asked.start, asked.end, asked.step_s, self._points(found, asked))

    def job(
        self,
        job: Job,
        *,
        range_name: str | None = None,
        start: int | None = None,
        end: int | None = None,
        series: Sequence[str] = (),
    ) -> JobHistory:
        """Return the series of a job's devices; without a period from its last start to its end, or to now.

        The series of a job that was never measured have no points. Raises Refused and BackendFailed as `device`.
        """
        asked = self._asked_of(job, range_name, start, end, series)
        found = self._recorder.job_roll_ups(job.sequence, asked.level, asked.span)
        # Imported here: it loads numpy, and the start of a server must not wait for that.
        from corral.features.history.recording.job_blocks import of_whole_job

        whole = of_whole_job(found, len(set(job.devices)), asked.step_s)
        return JobHistory(job.id, asked.start, asked.end, asked.step_s, self._points(whole, asked))

    def job_gpus(
        self,
        job: Job,
        allocation: Allocation | None,
        devices: Sequence[MonitoredDevice],
        *,
        range_name: str | None = None,
        start: int | None = None,
        end: int | None = None,
        series: Sequence[str] = (),
    ) -> JobGpusHistory:
        """Return the series of each device of the job's last allocation, or their spread if there are many."""
        asked = self._asked_of(job, range_name, start, end, series)
        if allocation is None or not devices:
            return JobGpusHistory(job.id, asked.start, asked.end, asked.step_s, (), {})
        found = self._recorder.job_roll_ups(job.sequence, asked.level, asked.span)
        # Imported here: it loads numpy, and the start of a server must not wait for that.
        from corral.features.history.recording.job_blocks import of_devices

        def points_of(numbers: range) -> dict[str, tuple[HistoryPoint, ...]]:
            return self._points(of_devices(found, allocation.attempt, numbers, asked.step_s), asked)

        apart = len(devices) <= MOST_GPUS_APART
        gpus = tuple(
            JobGpuHistory(*device, points_of(range(number, number + 1)) if apart else {})
            for number, device in enumerate(devices)
        )
        spread = {} if apart else points_of(range(len(devices)))
        return JobGpusHistory(job.id, asked.start, asked.end, asked.step_s, gpus, spread)

    def monitoring(self, job: Job, allocation: Allocation, devices: Sequence[MonitoredDevice]) -> GpuMonitoring | None:
        """Return the figures of the readings during this allocation of the job. `devices` are its devices, each once.

        None if nothing was measured, or the history cannot be read now.
        """
        if not devices:
            return None
        level = self._recorder.levels[-1]
        end = self._clock.now() if job.ended_at is None else job.ended_at
        span = (int(allocation.created_at) // level.step_s * level.step_s, int(end) + level.step_s)
        try:
            found = self._recorder.job_roll_ups(job.sequence, level, span)
        except BackendFailed:
            return None
        # Imported here: it loads numpy, and the start of a server must not wait for that.
        from corral.features.history.windows import windows_of_job

        return monitoring_of([windows_of_job(found, allocation.attempt, devices, math.inf)])

    def job_window(
        self, job: Job, allocation: Allocation | None, devices: Sequence[MonitoredDevice], window: tuple[float, float]
    ) -> GpuWindows:
        """Return the sums of the readings of each device of the job's last allocation in a window (Unix seconds).

        Raises Refused for an invalid window, and BackendFailed if the history cannot be read.
        """
        level, span = self._steps_within(window)
        if allocation is None or not devices or span[0] >= span[1]:
            return self._windows(span, ())
        found = self._recorder.job_roll_ups(job.sequence, level, span)
        # Imported here: it loads numpy, and the start of a server must not wait for that.
        from corral.features.history.windows import windows_of_job

        return self._windows(span, windows_of_job(found, allocation.attempt, devices, span[1] - span[0]))

    def device_window(self, uuid: str, window: tuple[float, float]) -> GpuWindows:
        """The same of one device, called by its UUID. Raises NotFound for a device without any history."""
        level, span = self._steps_within(window)
        key = self._known(uuid)
        if span[0] >= span[1]:
            return self._windows(span, ())
        found = self._recorder.roll_ups(key, level, span, range(len(SERIES)))
        # Imported here: it loads numpy, and the start of a server must not wait for that.
        from corral.features.history.windows import window_of_device

        device = MonitoredDevice(uuid, None, None)
        return self._windows(span, (window_of_device(found, device, span[1] - span[0]),))

    def _known(self, uuid: str) -> str:
        """Return the key of a device's history. Raises NotFound if it has none."""
        key = device_key(uuid)
        if not self._recorder.knows(key):
            raise NotFound(f"there is no history of a device {uuid}; `corral devices` shows UUIDs with --json")
        return key

    def _steps_within(self, window: tuple[float, float]) -> tuple[HistoryLevel, tuple[int, int]]:
        """Return the finest level that reaches back to a window, and its whole steps within, in the ledger's time."""
        start, end = window
        if not (math.isfinite(start) and math.isfinite(end) and start < end):
            raise Refused(f"from ({start}) must be before to ({end}), both in Unix seconds", field="from")
        # The newest readings count too: whoever asks has often just measured.
        self._recorder.catch_up()
        now = self._clock.now()
        first, last = self._clock.taken(start), min(self._clock.taken(end), now + 1)
        return steps_within(self._recorder.levels, first, last, now)

    def _windows(self, span: tuple[int, int], gpus: tuple[GpuWindow, ...]) -> GpuWindows:
        return GpuWindows(self._clock.shown(span[0]), self._clock.shown(span[1]), gpus)

    def _asked_of(
        self, job: Job, range_name: str | None, start: int | None, end: int | None, series: Sequence[str]
    ) -> "_Asked":
        """Without a period, from the job's last start to its end, or to now."""
        if range_name is None and start is None and end is None and job.started_at is not None:
            start = int(self._clock.shown(job.started_at))
            end = None if job.ended_at is None else int(self._clock.shown(job.ended_at)) + 1
        return self._asked(range_name, start, end, series)

    def _asked(self, range_name: str | None, start: int | None, end: int | None, series: Sequence[str]) -> "_Asked":
        names = _known(series)
        start, end = self._span(range_name, start, end)
        first, last = int(self._clock.taken(start)), int(self._clock.taken(end))
        level, step_s = choose(self._recorder.levels, first, last, self._clock.now(), self._recorder.interval_s)
        return _Asked(names, start, end, level, step_s, (first // step_s * step_s, last))

    def _points(self, found: "RollUps", asked: "_Asked") -> dict[str, tuple[HistoryPoint, ...]]:
        # Imported here: it loads numpy, and the start of a server must not wait for that.
        from corral.features.history.recording.merging import points_of

        return {name: points_of(found, name, asked.step_s, self._clock.shown) for name in asked.names}

    def _span(self, range_name: str | None, start: int | None, end: int | None) -> tuple[int, int]:
        now = self._clock.shown(self._clock.now())
        kept_s = max(level.kept_s for level in self._recorder.levels)
        return span_of(range_name, start, end, default=DEFAULT_RANGE, now=now, kept_s=kept_s)


def _known(series: Sequence[str]) -> tuple[str, ...]:
    for name in series:
        if name not in SERIES:
            raise Refused(f"there is no series {name!r:.60}; {nearest(name, SERIES)}", field="series")
    return tuple(dict.fromkeys(series)) or SERIES
