"""A window has the readings that were taken within it: no more and no fewer, however long ago and however long."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.config import Settings
from corral.core.model.answers.gpu_monitoring import GpuMonitoring, GpuStats, MeasuredRange, MeasuredUtilization
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.errors import NotFound, Refused
from corral.core.model.fact import AllocationMade, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View
from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.answers import GpuWindow, GpuWindows, SeriesWindow
from corral.features.history.monitoring import monitoring_of, series_of_readings
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.levels import kept_levels, steps_within
from corral.features.history.recording.series import SERIES, DeviceReadings
from corral.features.history.server_history import ServerHistory

T0 = 1_700_000_000 // 3600 * 3600.0
JOB = Job("1", 1, JobSpec(user="alice"), T0)
HAD = Allocation("1.1", "1", "alice", Placement((Member("n", (Grant("GPU-1", 1000),)),)), T0)
GPU = MonitoredDevice("0", "A100", 80_000)


@dataclass
class Site:
    """One GPU, which a job has, and the history of both."""

    history: ServerHistory
    clock: ManualClock
    samples: dict[str, DeviceSample]
    every_s: float

    def measure(self, seconds: float, used_pct: Callable[[float], int], *, look: bool = True) -> None:
        """Let time pass, and sample the GPU at the site's interval."""
        until = self.clock.now() + seconds
        while self.clock.now() + self.every_s <= until:
            self.clock.advance(self.every_s)
            at = self.clock.now()
            self.samples["GPU-1"] = DeviceSample("GPU-1", at, utilization_pct=used_pct(at), power_mw=200_000)
            if look:
                self.history.recorder.look()

    def of_job(self, since: float, until: float) -> GpuWindows:
        return self.history.queries.job_window(JOB, HAD, (GPU,), (since, until))


@contextmanager
def site(path: Path, every_s: float = 5.0) -> Iterator[Site]:
    node = Node("n", (Device("GPU-1", 0, "A100", 80_000),), 8000, 32768)
    view = View().advance(
        [NodeObserved(node), JobSubmitted(JOB, at=T0, by="alice"), AllocationMade(HAD, at=T0, by="test")]
    )
    clock, samples = ManualClock(T0), dict[str, DeviceSample]()
    settings = Settings(sample_interval_s=every_s)
    history = ServerHistory(
        HistoryFile(path / "history.db"), lambda: view, lambda: samples, clock, settings, failures=Counter()
    )
    yield Site(history, clock, samples, every_s)
    history.recorder.close()


def test_thirty_seconds_of_readings_every_five_are_six_readings_that_cover_thirty_seconds(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        here.measure(120, lambda at: 90 if T0 + 40 <= at < T0 + 70 else 10)
        found = monitoring_of([here.of_job(T0 + 39.9, T0 + 70.2).gpus])
    used = MeasuredUtilization(90, 90, 90, samples=6)
    assert found == GpuMonitoring(30.0, 6, {"0": GpuStats("A100", used, power_draw_w=MeasuredRange(200, 200, 200))})


@pytest.mark.parametrize(("seconds", "hours_ago"), [(60, 0), (1_500, 0), (60, 2), (4_000, 2)])
def test_a_window_counts_the_same_however_long_and_however_long_ago_it_was(
    tmp_path: Path, seconds: int, hours_ago: int
) -> None:
    since, until = T0 + 600, T0 + 600 + seconds
    with site(tmp_path) as here:
        here.measure(600 + seconds + 100, lambda at: 80 if since <= at < until else 5)
        here.clock.advance(3600.0 * hours_ago)
        (gpu,) = here.of_job(since, until).gpus
    used = gpu.series["utilization_pct"]
    assert (used.count, used.covered_s, used.min, used.max) == (seconds // 5, seconds, 80, 80)


def test_a_reading_covers_no_more_than_the_window_although_its_time_began_before(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        here.measure(60, lambda at: 90)
        (gpu,) = here.of_job(T0 + 29, T0 + 31).gpus
    used = gpu.series["utilization_pct"]
    assert (used.count, used.covered_s) == (1, 2.0)


def test_an_old_window_has_only_the_whole_steps_that_are_still_known(tmp_path: Path) -> None:
    with site(tmp_path, every_s=1.0) as here:
        here.measure(60, lambda at: 80 if T0 + 15 <= at < T0 + 45 else 5)
        here.clock.advance(7200.0)
        found = here.of_job(T0 + 15, T0 + 45)
        nothing = here.of_job(T0 + 11, T0 + 19)
    used = found.gpus[0].series["utilization_pct"]
    assert (found.from_, found.to, used.count, used.min) == (T0 + 20, T0 + 40, 20, 80)
    assert nothing.gpus == ()
    assert monitoring_of([nothing.gpus]) is None


@pytest.mark.parametrize(
    ("seconds_ago", "seconds", "step_s"),
    [
        (3_000, 2_900, 1),
        (5_000, 4_900, 10),
        (80_000, 79_000, 60),
        (3 * 86_400, 3_000, 60),
        (3 * 86_400, 3 * 86_400, 900),
        (300 * 86_400, 3_000, 3_600),
        (4_000 * 86_400, 3_000 * 86_400, 3_600),
    ],
)
def test_the_finest_steps_are_read_that_are_kept_and_not_too_many(seconds_ago: int, seconds: int, step_s: int) -> None:
    since = T0 - seconds_ago + 0.5
    level, (first, last) = steps_within(kept_levels(7), since, since + seconds, T0)
    assert level.step_s == step_s
    assert first % step_s == last % step_s == 0
    assert since <= first < since + step_s
    assert since + seconds - step_s < last <= since + seconds


def test_the_newest_sample_counts_although_nobody_has_recorded_it_yet(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        here.measure(5, lambda _: 70, look=False)
        (gpu,) = here.of_job(T0, T0 + 6).gpus
        of_device = here.history.queries.device_window("GPU-1", (T0, T0 + 6))
    assert gpu.series["utilization_pct"] == SeriesWindow(1, 70.0, 70.0, 70.0, 5.0)
    assert of_device.gpus == (GpuWindow("GPU-1", None, None, gpu.series),)


def test_a_window_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        for window in ((2.0, 1.0), (1.0, 1.0), (float("nan"), 2.0), (1.0, float("inf"))):
            with pytest.raises(Refused, match="must be before"):
                here.of_job(*window)
        with pytest.raises(NotFound, match="GPU-9"):
            here.history.queries.device_window("GPU-9", (1.0, 2.0))


def gpu(label: str, **series: list[float]) -> GpuWindow:
    """Each reading covers five seconds."""
    sums = {name: SeriesWindow(len(v), sum(v), min(v), max(v), 5.0 * len(v)) for name, v in series.items()}
    return GpuWindow(label, "A100", 40_000, sums)


def test_windows_are_added_up_for_each_gpu() -> None:
    first = [gpu("0", utilization_pct=[80, 90], memory_used_mib=[10_000, 20_000], power_w=[200, 200])]
    second = [gpu("0", utilization_pct=[40], memory_used_mib=[30_000]), gpu("1", temperature_c=[55])]
    found = monitoring_of([first, second])
    assert found is not None
    assert (found.sample_count, found.monitoring_duration_seconds) == (3, 15.0)
    assert found.gpu_stats["0"] == GpuStats(
        "A100",
        MeasuredUtilization(40, 90, 70, samples=3),
        MeasuredRange(10_000, 30_000, 20_000),
        MeasuredRange(25, 75, 50),
        power_draw_w=MeasuredRange(200, 200, 200),
    )
    assert found.gpu_stats["1"] == GpuStats("A100", temperature_c=MeasuredRange(55, 55, 55))


def test_where_nothing_was_read_nothing_is_told() -> None:
    assert monitoring_of([]) is None
    assert monitoring_of([[gpu("0")]]) is None


def test_readings_of_anybody_are_counted_as_those_of_the_history() -> None:
    def reading(at: float, used_pct: float | None) -> DeviceReadings:
        values = {"utilization_pct": used_pct}
        return DeviceReadings(at, 5.0, tuple(values.get(name) for name in SERIES))

    readings = [reading(10, 1), reading(13, 50), reading(18, None), reading(23, 70), reading(23.1, 1)]
    assert series_of_readings(readings, (10.0, 23.0)) == {"utilization_pct": SeriesWindow(2, 120.0, 50.0, 70.0, 10.0)}
    assert series_of_readings(readings[1:2], (12.0, 14.0))["utilization_pct"].covered_s == 2.0
