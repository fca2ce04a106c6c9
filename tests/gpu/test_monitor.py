"""The monitor on the stub driver: what it sees, what it remembers, and how it bears the absence of everything."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from corral.core.model.errors import Refused
from corral.gpu import GPUMonitor, get_gpu_monitor, lock_files
from corral.gpu import monitor as monitor_module
from tests.vendors.nvidia.nvml_stub import NvmlStub, stub_uuid


@pytest.fixture
def stub(stubbed_nvml: NvmlStub) -> NvmlStub:
    return stubbed_nvml


def until(holds: Callable[[], bool]) -> None:
    """Wait for what a recording does in its own time."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def until_sampled(monitor: GPUMonitor) -> None:
    """Wait for the recording's first sample."""
    until(lambda: monitor.get_average_utilization(0) is not None)


def test_every_caller_gets_the_same_monitor() -> None:
    assert get_gpu_monitor() is get_gpu_monitor()


def test_a_snapshot_holds_every_gpu_with_its_readings_and_score(stub: NvmlStub) -> None:
    stub.say("gpu 2 util 50", "gpu 2 used 40660", "gpu 2 power 250500", "gpu 2 temp 61")
    snapshot = GPUMonitor().query_gpus()
    assert snapshot is not None
    assert datetime.now(UTC) - snapshot.timestamp < timedelta(seconds=30)
    assert [gpu.index for gpu in snapshot.gpus] == list(range(8))
    gpu = snapshot.gpus[2]
    assert (gpu.name, gpu.memory_total_mb, gpu.memory_used_mb) == ("NVIDIA A100-SXM4-80GB", 81920, 40660)
    assert (gpu.memory_free_mb, gpu.utilization_percent, gpu.temperature_c) == (40660, 50, 61)
    assert gpu.power_draw_w == 250.5
    assert gpu.score == pytest.approx(0.6 * 40660 / 81920 + 0.4 * 0.5)


def test_a_query_within_five_seconds_is_answered_from_memory_unless_told_otherwise(
    stub: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert monitor_module.CACHE_TTL_S == 5.0
    monkeypatch.setattr(monitor_module, "CACHE_TTL_S", 3600.0)
    monitor = GPUMonitor()
    first = monitor.query_gpus()
    stub.say("gpu 0 util 99")
    assert monitor.query_gpus() is first
    fresh = monitor.query_gpus(use_cache=False)
    assert fresh is not None
    assert fresh.gpus[0].utilization_percent == 99
    assert monitor.query_gpus() is fresh
    monkeypatch.setattr(monitor_module, "CACHE_TTL_S", 0.0)
    assert monitor.query_gpus() is not fresh


def test_starting_and_stopping_a_recording_forget_the_snapshot(stub: NvmlStub) -> None:
    monitor = GPUMonitor()
    first = monitor.query_gpus()
    monitor.start_monitoring(10.0)
    second = monitor.query_gpus()
    assert second is not first
    monitor.stop_monitoring()
    assert monitor.query_gpus() is not second


def test_available_gpus_come_best_first_and_by_index_among_equals(stub: NvmlStub) -> None:
    stub.say("gpu 0 util 30", "gpu 1 used 1000", "gpu 3 util 51")
    assert GPUMonitor().get_available_gpus() == [2, 4, 5, 6, 7, 1, 0]


def test_thresholds_are_honoured_at_their_very_values(stub: NvmlStub) -> None:
    stub.say("devices 2", "gpu 0 util 50", "gpu 1 used 1320")
    assert GPUMonitor().get_available_gpus() == [1, 0]
    assert GPUMonitor().get_available_gpus(max_utilization=49) == [1]
    assert GPUMonitor().get_available_gpus(min_memory_mb=80_000) == [1, 0]
    assert GPUMonitor().get_available_gpus(min_memory_mb=80_001) == [0]


def test_a_gpu_that_cannot_be_read_has_no_score_and_is_never_available(stub: NvmlStub) -> None:
    stub.say("devices 3", "gpu 1 mig 1")
    monitor = GPUMonitor()
    gpu = monitor.get_gpu_info(1)
    assert gpu is not None
    assert (gpu.utilization_percent, gpu.score) == (None, 0.0)
    assert monitor.get_available_gpus(max_utilization=100) == [0, 2]


def test_a_gpu_that_another_leases_is_not_available(stub: NvmlStub) -> None:
    stub.say("devices 2")
    lock = lock_files.take(stub_uuid(0))
    assert lock is not None
    assert GPUMonitor().get_available_gpus() == [1]
    lock_files.give_back(lock)
    assert GPUMonitor().get_available_gpus() == [0, 1]


def test_an_index_that_is_not_there_has_no_info(stub: NvmlStub) -> None:
    assert GPUMonitor().get_gpu_info(99) is None


def test_a_recording_comes_to_the_documented_shape(stub: NvmlStub) -> None:
    stub.say("devices 1", "gpu 0 util 80", "gpu 0 used 8192")
    monitor = GPUMonitor()
    monitor.start_monitoring(interval_seconds=0.01)
    began = time.monotonic()
    until_sampled(monitor)
    lasted_s = time.monotonic() - began
    stats = monitor.stop_monitoring()
    assert stats is not None
    assert set(stats) == {"monitoring_duration_seconds", "sample_count", "gpu_stats"}
    assert stats["monitoring_duration_seconds"] >= lasted_s
    gpu = stats["gpu_stats"]["0"]
    assert gpu["name"] == "NVIDIA A100-SXM4-80GB"
    assert gpu["utilization"] == {"min": 80.0, "max": 80.0, "mean": 80.0, "samples": stats["sample_count"]}
    assert gpu["memory_used_mb"] == {"min": 8192.0, "max": 8192.0, "mean": 8192.0}
    assert gpu["memory_usage_percent"] == {"min": 10.0, "max": 10.0, "mean": 10.0}
    assert gpu["temperature_c"] == {"min": 30.0, "max": 30.0, "mean": 30.0}
    assert gpu["power_draw_w"] == {"min": 60.0, "max": 60.0, "mean": 60.0}


def test_what_could_never_be_read_is_none_in_a_recording_and_not_zero(stub: NvmlStub) -> None:
    stub.say("devices 1", "gpu 0 power -1")
    monitor = GPUMonitor()
    monitor.start_monitoring(interval_seconds=0.01)
    until_sampled(monitor)
    stats = monitor.stop_monitoring()
    assert stats is not None
    assert stats["gpu_stats"]["0"]["power_draw_w"] == {"min": None, "max": None, "mean": None}


def test_a_recording_that_was_never_started_is_none(stub: NvmlStub) -> None:
    monitor = GPUMonitor()
    assert monitor.stop_monitoring() is None
    monitor.start_monitoring(10.0)
    assert monitor.stop_monitoring() is not None
    assert monitor.stop_monitoring() is None


def test_starting_again_forgets_what_was_recorded(stub: NvmlStub) -> None:
    monitor = GPUMonitor()
    monitor.start_monitoring(0.01)
    until_sampled(monitor)
    monitor.start_monitoring(3600.0)
    until_sampled(monitor)
    stats = monitor.stop_monitoring()
    assert stats is not None
    assert stats["sample_count"] == 1


def test_an_interval_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="above 0"):
        GPUMonitor().start_monitoring(0)


def test_the_average_is_that_of_the_window_and_none_without_readings(stub: NvmlStub) -> None:
    stub.say("devices 1", "gpu 0 util 40")
    monitor = GPUMonitor()
    assert monitor.get_average_utilization(0) is None
    monitor.start_monitoring(0.01)
    until_sampled(monitor)
    assert monitor.get_average_utilization(0) == 40.0
    assert monitor.get_average_utilization(7) is None
    monitor.stop_monitoring()
    assert monitor.get_average_utilization(0) == 40.0
    assert monitor.get_average_utilization(0, window_seconds=-1) is None


def test_a_driver_that_comes_and_goes_costs_samples_and_nothing_else(
    stub: NvmlStub, caplog: pytest.LogCaptureFixture
) -> None:
    stub.say("gpu 7 util 10")
    monitor = GPUMonitor()
    assert monitor.is_available()
    monitor.start_monitoring(0.01)
    until_sampled(monitor)
    stub.say("generation 1", "init 9")
    until(lambda: "cannot be read" in caplog.text)
    stub.say("generation 1", "devices 8", "gpu 7 util 90")
    until(lambda: (monitor.get_average_utilization(7) or 0) > 10)
    stats = monitor.stop_monitoring()
    assert stats is not None
    assert (stats["gpu_stats"]["7"]["utilization"]["min"], stats["gpu_stats"]["7"]["utilization"]["max"]) == (10, 90)


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_there_is_nothing_to_see_and_one_line_says_why(caplog: pytest.LogCaptureFixture) -> None:
    monitor = GPUMonitor()
    with caplog.at_level(logging.WARNING):
        assert not monitor.is_available()
        assert monitor.query_gpus(use_cache=False) is None
        assert monitor.get_available_gpus() == []
        assert monitor.get_gpu_info(0) is None
        monitor.start_monitoring(0.01)
        time.sleep(0.03)
        stats = monitor.stop_monitoring()
    assert stats is not None
    assert (stats["sample_count"], stats["gpu_stats"]) == (0, {})
    assert len(caplog.records) == 1
    assert "libnvidia-ml.so.1" in caplog.text
