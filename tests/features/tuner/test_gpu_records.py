"""What GPUs were like while an experiment was measured."""

import json
from typing import Any

from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.answers import GpuWindow, SeriesWindow
from corral.features.history.recording.series import SERIES, DeviceReadings
from corral.features.tuner.measuring.gpu_records import course_of, figures_of_gpus, gpus_of_level


def gpu(label: str, watts: float, *, used_pct: float = 50.0, seconds: float = 30.0) -> GpuWindow:
    count = int(seconds // 5)
    series = {
        name: SeriesWindow(count, value * count, value, value, seconds)
        for name, value in (("utilization_pct", used_pct), ("power_w", watts), ("xid", 0.0))
    }
    return GpuWindow(label, "NVIDIA A100", 40_000, series)


def level(*gpus: GpuWindow, seconds: float = 30.0, tokens: float = 100.0) -> dict[str, Any]:
    stats = {"num_output_tokens": {"sum": tokens}, "num_input_tokens": {"sum": 0.0}}
    # As a record brings it back.
    found: dict[str, Any] = json.loads(json.dumps({"stats": stats, **gpus_of_level(seconds, gpus)}))
    return found


def test_the_figures_are_those_of_all_levels_together() -> None:
    found = figures_of_gpus([level(gpu("0", 100), gpu("1", 300)), level(gpu("0", 200), gpu("1", 200), seconds=60.0)])
    monitoring = found["gpu_monitoring"]
    assert (monitoring["monitoring_duration_seconds"], monitoring["sample_count"]) == (60.0, 12)
    assert monitoring["gpu_stats"]["0"]["power_draw_w"] == {"min": 100, "max": 200, "mean": 150}
    assert found["energy_j"] == 400 * 30 + 400 * 60
    assert found["energy_per_output_token_j"] == found["energy_j"] / 200


def test_levels_without_readings_count_for_nothing() -> None:
    assert gpus_of_level(30.0, ()) == gpus_of_level(30.0, [GpuWindow("0", None, None, {})]) == {}
    assert figures_of_gpus([level()]) == figures_of_gpus([]) == {}
    found = figures_of_gpus([level(), level(gpu("0", 100))])
    assert (found["gpu_monitoring"]["sample_count"], found["energy_j"]) == (6, 3000)


def test_a_level_keeps_of_each_gpu_only_the_series_that_a_record_tells() -> None:
    (kept,) = gpus_of_level(30.0, [gpu("0", 100)])["gpus"]
    assert set(kept["series"]) == {"utilization_pct", "power_w"}


def reading(at: float, used_pct: float | None, power_w: float, covers_s: float = 5.0) -> DeviceReadings:
    values = {"utilization_pct": used_pct, "power_w": power_w}
    return DeviceReadings(at, covers_s, tuple(values.get(name) for name in SERIES))


def test_where_nobody_records_gpus_a_level_keeps_their_course_in_few_steps() -> None:
    read = {MonitoredDevice("3", "H100", 81_559): [reading(102.0, 10, 100), reading(107.5, None, 200)]}
    course = course_of(read, (100.0, 120.0))["gpu_course"]
    assert (course["from"], course["to"], course["step_s"]) == (100.0, 120.0, 5)
    (gpu,) = course["gpus"]
    assert gpu["means"] == {"utilization_pct": [[0, 10]], "power_w": [[0, 100], [1, 200]]}
    each_second = {MonitoredDevice("3", None, None): [reading(at, 50, at, 1.0) for at in range(1, 3_601)]}
    (gpu,) = course_of(each_second, (0.0, 3_600.0))["gpu_course"]["gpus"]
    assert len(gpu["means"]["power_w"]) == 31
    assert gpu["means"]["power_w"][1] == [1, 179.5]


def test_too_many_gpus_have_no_lines() -> None:
    read = {MonitoredDevice(str(number), None, None): [reading(1.0, 50, 100)] for number in range(17)}
    assert course_of(read, (0.0, 10.0)) == course_of({}, (0.0, 10.0)) == {}
