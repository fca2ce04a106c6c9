"""What GPUs were like while an experiment was measured."""

from corral.features.history.answers import HistoryPoint, JobGpuHistory
from corral.features.tuner.measuring.gpu_records import monitoring_of_windows, whole_seconds


def gpu(label: str, **series: list[float]) -> JobGpuHistory:
    points = {
        name: tuple(HistoryPoint(t, value - 1, value, value + 1, value, 1.0) for t, value in enumerate(values))
        for name, values in series.items()
    }
    return JobGpuHistory(label, "NVIDIA A100", 40_000, points)


def test_only_seconds_that_lie_within_the_window_count() -> None:
    assert whole_seconds((10.2, 13.9)) == (11, 13)
    assert whole_seconds((10.0, 13.0)) == (10, 13)
    assert whole_seconds((10.2, 11.1)) is None


def test_windows_are_added_up_for_each_gpu() -> None:
    first = [gpu("0", utilization_pct=[80, 90], memory_used_mib=[10_000, 20_000], power_w=[200, 200])]
    second = [gpu("0", utilization_pct=[40], memory_used_mib=[30_000]), gpu("1", temperature_c=[55])]
    found = monitoring_of_windows([first, second])
    assert found is not None
    assert (found["sample_count"], found["monitoring_duration_seconds"]) == (3, 3.0)
    stats = found["gpu_stats"]
    assert stats["0"]["utilization"] == {"min": 39, "max": 91, "mean": 70, "samples": 3}
    assert stats["0"]["memory_usage_percent"]["mean"] == 50.0
    assert stats["0"]["power_draw_w"]["mean"] == 200
    assert stats["1"] == {"name": "NVIDIA A100", "temperature_c": {"min": 54, "max": 56, "mean": 55}}


def test_where_nothing_was_read_nothing_is_told() -> None:
    assert monitoring_of_windows([]) is None
    assert monitoring_of_windows([[gpu("0")]]) is None
