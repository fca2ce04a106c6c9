"""What is told of several devices together: of a job that has them, its user and project, and of a node."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.answers.gpu_monitoring import GpuMonitoring, MeasuredRange, MeasuredUtilization
from corral.core.model.errors import NotFound, Refused
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation
from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.answers import HistoryPoint
from corral.features.history.asking import Group, HistoryQueries
from corral.features.history.recording.readings import new_readings
from tests.features.history.life import DEVICES, T0, Life, user_of


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path / "history.db")
    yield life
    life.recorder.close()


def of_job(life: Life, number: int, name: str, *devices: str) -> tuple[HistoryPoint, ...]:
    job = Job(str(number), number, JobSpec("u"), T0, started_at=T0, devices=devices)
    return HistoryQueries(life.recorder, life.clock).job(job, series=[name]).series[name]


def of_group(life: Life, kind: Group, of: str, name: str) -> tuple[HistoryPoint, ...]:
    return HistoryQueries(life.recorder, life.clock).group(kind, of, series=[name]).series[name]


def values(points: tuple[HistoryPoint, ...]) -> set[tuple[float, float, float, float]]:
    return {(point.min, point.mean, point.max, point.coverage) for point in points}


def test_of_several_devices_power_is_the_sum_and_utilisation_that_of_each(life: Life) -> None:
    life.start(1, "a", "c")
    for _ in range(20):
        life.second(40, 100)
    assert values(of_job(life, 1, "power_w", "a", "c")) == {(202, 202, 202, 1)}
    assert values(of_job(life, 1, "utilization_pct", "a", "c")) == {(40, 41, 42, 1)}


def test_a_user_has_what_all_of_their_jobs_have_and_a_node_what_all_of_its_devices_have(life: Life) -> None:
    life.start(1, "a")
    life.start(3, "b")
    life.start(2, "c")
    for _ in range(20):
        life.second(40, 100)
    assert {point.mean for point in of_group(life, "user", user_of(1), "power_w")} == {201}
    assert {point.mean for point in of_group(life, "user", user_of(2), "power_w")} == {102}
    assert {point.mean for point in of_group(life, "project", "p", "power_w")} == {303}
    assert {point.mean for point in of_group(life, "node", "n", "power_w")} == {303}
    used = of_group(life, "node", "n", "utilization_pct")
    assert {(point.min, point.mean, point.max) for point in used} == {(40, 41, 42)}


def test_a_sum_of_which_a_part_is_not_known_is_a_gap(life: Life) -> None:
    life.start(1, "a")
    life.start(3, "b", "c")
    life.start(5, "c")
    for _ in range(20):
        life.second(40, 100)
    # Of the power of a shared device no part is a job's.
    assert of_group(life, "user", user_of(1), "power_w") == ()
    assert of_job(life, 3, "power_w", "b", "c") == ()
    assert of_job(life, 1, "power_w", "a") != ()
    assert of_group(life, "node", "n", "power_w") != ()


def test_a_device_that_fails_leaves_a_gap_in_the_sums_and_half_of_the_rest(life: Life) -> None:
    life.start(1, "a", "b")
    for _ in range(10):
        life.second(40, 100)
    found = life.clock.now()
    for _ in range(10):
        life.second(40, 100, failing=("b",))
    power = of_job(life, 1, "power_w", "a", "b")
    assert max(point.t for point in power) <= found
    used = of_job(life, 1, "utilization_pct", "a", "b")
    assert {point.coverage for point in used if point.t > found} == {0.5}
    assert [point.coverage for point in of_group(life, "user", user_of(1), "utilization_pct")][-2] == 0.5


def test_a_job_that_started_after_the_last_sample_has_no_part_in_it(life: Life) -> None:
    life.start(1, "a")
    life.held[1] = replace(life.held[1], created_at=T0 + 1.5)
    life.second(40, 100)
    with pytest.raises(NotFound):
        of_group(life, "user", user_of(1), "power_w")
    life.second(40, 100)
    (point,) = of_group(life, "user", user_of(1), "power_w")
    assert (point.mean, point.coverage) == (100, 0.1)


def test_jobs_that_share_their_blocks_are_told_apart_and_from_their_neighbours(life: Life) -> None:
    for number in (31, 32, 33):
        life.start(number, "a")
        life.second(number, 100)
        life.held.pop(number)
    life.recorder.write()
    assert [[point.mean for point in of_job(life, number, "utilization_pct", "a")] for number in (31, 32, 33, 34)] == [
        *([31], [32], [33], [])
    ]


def test_a_job_that_ended_keeps_its_history_as_long_as_its_level(life: Life) -> None:
    life.start(1, "a")
    life.second(40, 100)
    life.held.pop(1)
    job = Job("1", 1, JobSpec("u"), T0, started_at=T0, ended_at=T0 + 2, devices=("a",))
    for days in (0.5, 6, 300):
        life.clock.advance(days * 86_400)
        life.second(50, 100)
        life.recorder.write()
        found = HistoryQueries(life.recorder, life.clock).job(job, series=["power_w"])
        assert [point.mean for point in found.series["power_w"]] == [100]
    life.clock.advance(90 * 86_400)
    with pytest.raises(Refused, match="365d"):
        HistoryQueries(life.recorder, life.clock).job(job)


def figures(life: Life, number: int, allocation: Allocation, *labels: str) -> GpuMonitoring | None:
    job = Job(str(number), number, JobSpec("u"), T0, ended_at=life.clock.now())
    devices = [MonitoredDevice(label, None, 81_920) for label in labels]
    return HistoryQueries(life.recorder, life.clock).monitoring(job, allocation, devices)


def test_the_figures_of_a_job_are_there_when_it_has_ended_also_after_a_restart(life: Life) -> None:
    life.start(1, "a", "c")
    for used in (10, 20, 60):
        life.second(used, 100)
    allocation = life.held.pop(1)
    at_once = figures(life, 1, allocation, "0", "2")
    life.second(99, 999)
    life.recorder.close()
    life.restart()
    assert figures(life, 1, allocation, "0", "2") == at_once
    assert at_once is not None
    assert (at_once.monitoring_duration_seconds, at_once.sample_count) == (3.0, 3)
    assert at_once.gpu_stats["0"].utilization == MeasuredUtilization(10, 60, 30, 3)
    assert at_once.gpu_stats["2"].power_draw_w == MeasuredRange(102, 102, 102)
    assert at_once.gpu_stats["2"].memory_used_mb is None


def test_the_figures_are_those_of_the_last_attempt_alone(life: Life) -> None:
    life.start(1, "a")
    life.second(10, 100)
    first = life.held.pop(1)
    second = replace(first, id="1.2", attempt=2, created_at=life.clock.now())
    assert figures(life, 1, second, "0") is None
    life.held[1] = second
    life.second(90, 100)
    found = figures(life, 1, second, "0")
    assert found is not None
    assert found.gpu_stats["0"].utilization == MeasuredUtilization(90, 90, 90, 1)


def test_without_retention_a_job_has_its_last_hour_and_the_figures_of_it(tmp_path: Path) -> None:
    life = Life(tmp_path / "short.db", days=0)
    life.start(1, "a")
    for used in (10, 90):
        life.second(used, 100, seconds=5000.0)
        life.recorder.write()
    found = figures(life, 1, life.held[1], "0")
    assert found is not None
    assert found.gpu_stats["0"].utilization == MeasuredUtilization(90, 90, 90, 1)
    assert [point.mean for point in of_job(life, 1, "utilization_pct", "a")] == [90]
    life.recorder.close()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"start": int(T0) + 5, "end": int(T0)}, "must be before"),
        ({"start": 1, "end": 2}, "365d"),
        ({"series": ["power"]}, "power_w"),
        ({"range_name": "1w"}, "1h"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(life: Life, wanted: dict[str, Any], words: str) -> None:
    life.start(1, "a")
    life.second(40, 100)
    queries = HistoryQueries(life.recorder, life.clock)
    with pytest.raises(Refused, match=words):
        queries.group("project", "p", **wanted)
    with pytest.raises(Refused, match=words):
        queries.job(Job("1", 1, JobSpec("u"), T0, started_at=T0, devices=("a",)), **wanted)


def test_a_name_that_was_never_heard_is_not_found(life: Life) -> None:
    for kind in ("node", "user", "project"):
        with pytest.raises(NotFound, match=f"{kind} 'nobody'"):
            of_group(life, kind, "nobody", "power_w")


def test_a_device_cannot_be_taken_for_a_user(life: Life) -> None:
    life.start(1, "a")
    life.second(40, 100)
    with pytest.raises(NotFound):
        HistoryQueries(life.recorder, life.clock).device(f"user:{user_of(1)}")


def test_a_user_whose_first_job_has_just_started_has_no_readings_yet(life: Life) -> None:
    life.second(40, 100)
    life.clock.advance(0.1)
    life.start(1, "a", "b")
    found = new_readings(life.view(), life.samples, dict.fromkeys(DEVICES, 1.0), 1.0)
    assert not [key for key, _ in found.named if key.startswith(("user:", "project:"))]
