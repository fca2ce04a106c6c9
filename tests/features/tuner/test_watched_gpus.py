"""A benchmark reads the GPUs of its server while it measures, and says nothing of GPUs that it does not know."""

import threading
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.core.ports.monitoring import MonitoredDevice
from corral.features.tuner.measuring import gpus_here
from corral.features.tuner.measuring.benchmark import run_benchmark_job
from corral.features.tuner.measuring.gpu_sampler import GpuSampler
from corral.features.tuner.measuring.gpus_here import is_here
from corral.features.tuner.measuring.level_figures import AppliedLoad
from tests.e2e.box import Box
from tests.features.tuner.serving import stand_in
from tests.vendors.nvidia.nvml_stub import NvmlStub

SPEC: dict[str, Any] = {
    "model_name": "m",
    "traffic_scenarios": ["D(40,8)"],
    "num_concurrency": [1, 6],
    "max_requests_per_iteration": 1_000_000,
    "max_time_per_iteration": 0.02,
}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server on this host."""
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path / "no-server"))
    monkeypatch.setattr(gpus_here, "EVERY_S", 0.02)


@pytest.mark.usefixtures("alone")
def test_each_level_has_the_readings_of_its_own_window_and_the_whole_has_all(stubbed_nvml: NvmlStub) -> None:
    use_pct = {1: 40, 6: 80}

    def on_level(load: AppliedLoad) -> None:
        power_mw = 1000 * use_pct[load.concurrency]
        stubbed_nvml.say(f"gpu 1 util {use_pct[load.concurrency]}", f"gpu 1 power {power_mw}", "gpu 0 util 7")

    with stand_in() as url:
        metrics = run_benchmark_job(url, SPEC, [1], on_level=on_level)
    monitoring = metrics["gpu_monitoring"]
    (gpu,) = monitoring["gpu_stats"].values()
    assert list(monitoring["gpu_stats"]) == ["1"]
    assert (gpu["name"], gpu["utilization"]["min"], gpu["utilization"]["max"]) == ("NVIDIA A100-SXM4-80GB", 40, 80)
    assert monitoring["sample_count"] == gpu["utilization"]["samples"] >= 2
    assert 0 < monitoring["monitoring_duration_seconds"] <= metrics["elapsed_time"] + 0.1
    used = [level["gpus"][0]["series"]["utilization_pct"] for level in metrics["raw_results"]]
    assert [(one["min"], one["max"]) for one in used] == [(40, 40), (80, 80)]
    watts = [level["run_duration"] * use for level, use in zip(metrics["raw_results"], (40, 80), strict=True)]
    assert metrics["energy_j"] == pytest.approx(sum(watts))


@pytest.mark.usefixtures("alone", "stubbed_nvml")
@pytest.mark.parametrize("indices", [None, []])
def test_gpus_that_are_not_known_are_none(indices: list[int] | None) -> None:
    with stand_in() as url:
        metrics = run_benchmark_job(url, {**SPEC, "num_concurrency": [1]}, indices)
    assert metrics["gpu_monitoring"] is None
    assert "energy_j" not in metrics


@pytest.mark.usefixtures("alone", "stubbed_nvml")
def test_an_index_that_no_gpu_here_has_is_refused_with_those_that_there_are() -> None:
    with stand_in() as url, pytest.raises(Refused, match="no GPU 77, 99; its GPUs are 0, 1, 2, 3, 4, 5, 6, 7"):
        run_benchmark_job(url, SPEC, [99, 1, 77])


def test_a_server_that_records_its_gpus_tells_of_the_window(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_HOME", str(box.home))
    with stand_in() as url:
        metrics = run_benchmark_job(url, {**SPEC, "num_concurrency": [1], "max_time_per_iteration": 0.07}, [1])
    monitoring = metrics["gpu_monitoring"]
    (gpu,) = monitoring["gpu_stats"].values()
    assert (list(monitoring["gpu_stats"]), gpu["name"]) == (["1"], "Mock A100")
    # It samples each second.
    assert 1 <= monitoring["sample_count"] <= 5
    assert monitoring["monitoring_duration_seconds"] <= 4.2
    assert metrics["energy_j"] > 0


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.9.9.9:8000/v1", True),
        ("http://[::1]:8000", True),
        ("http://192.0.2.1:8000", False),
        ("http://[2001:db8::1]:8000", False),
        ("http://no-such-host.invalid:8000", False),
        ("http://[broken", False),
        ("http://", False),
        ("", False),
    ],
)
def test_the_gpus_of_a_server_elsewhere_are_not_those_of_this_host(url: str, here: bool) -> None:
    assert is_here(url) is here


def test_a_source_that_fails_misses_readings_and_says_why_once(caplog: pytest.LogCaptureFixture) -> None:
    failed = threading.Event()
    asked: list[int] = []

    def read() -> dict[MonitoredDevice, dict[str, float | None]]:
        asked.append(1)
        if len(asked) == 3:
            failed.set()
        raise OSError("no such pod")

    sampler = GpuSampler(read, 0.01)
    assert failed.wait(60)
    sampler.close()
    assert sampler.readings(0.0, 1e12) == {}
    assert caplog.text.count("GPUs are not read: no such pod") == 1
