"""What disturbs a measurement is recorded and told: neighbours, throttling, clocks below the usual ones."""

from collections.abc import Iterator
from typing import Any

import pytest

from corral.client import Client
from corral.features.history.answers import GpuWindow, SeriesWindow
from corral.features.tuner.measuring.noise import noise_in_words, noise_of_gpus, with_neighbours
from tests.e2e.box import Box, described, serving
from tests.features.tuner.tasks import TASK, begun, over, until


def window(label: str = "0", **means: float) -> GpuWindow:
    series = {name: SeriesWindow(10, 10 * mean, mean, mean, 10.0) for name, mean in means.items()}
    return GpuWindow(label, "A100", 81920, series)


def test_throttling_and_slow_clocks_are_those_of_all_windows() -> None:
    windows = [[window(throttle=0.5, sm_clock_mhz=1000)], [window(throttle=0.0, sm_clock_mhz=1200)]]
    assert noise_of_gpus(windows, {"A100": 1410.0}) == {
        "throttled": {"0": 0.25},
        "slow_clocks": {"0": {"mean_mhz": 1100, "usual_mhz": 1410}},
    }


def test_what_was_read_and_is_as_usual_is_empty_and_what_is_not_known_is_left_out() -> None:
    assert noise_of_gpus([[window(throttle=0.0, sm_clock_mhz=1400)]], {"A100": 1410.0}) == {
        "throttled": {},
        "slow_clocks": {},
    }
    assert noise_of_gpus([[window(sm_clock_mhz=700)]], {}) == {}
    assert noise_of_gpus([], {"A100": 1410.0}) == {}


def test_neighbours_of_all_levels_are_kept_and_without_knowledge_none_is_claimed() -> None:
    first = with_neighbours(None, {"same_gpu": [], "same_node": ["job 1", "job 2"]})
    assert with_neighbours(first, {"same_gpu": [], "same_node": ["job 2", "job 3"]}) == {
        "same_gpu": [],
        "same_node": ["job 1", "job 2", "job 3"],
    }
    assert with_neighbours(None, None) == {}
    many = with_neighbours(None, {"same_gpu": [], "same_node": [f"job {number}" for number in range(100)]})
    assert len(many["same_node"]) == 20
    assert noise_in_words(many) == ("job 0, job 1, job 2 and 17 more ran on its node at the same time",)


def test_words_of_a_hostile_record_are_short_and_no_error() -> None:
    for hostile in ({"throttled": {"0": "x"}}, {"slow_clocks": {"0": 3}}, {"same_gpu": "all"}, {"throttled": [1]}):
        assert noise_in_words(hostile) == ()
    (said,) = noise_in_words({"slow_clocks": {"0" * 999: {"mean_mhz": "9" * 999}}})
    assert len(said) < 250


@pytest.fixture
def box() -> Iterator[Box]:
    with serving(described(2)) as serving_box:
        yield serving_box


MEASURED: dict[str, Any] = {
    "parameters": {"max-num-seqs": [4]},
    "benchmark": {**TASK["benchmark"], "max_time_per_iteration": 0.1, "max_requests_per_iteration": 10**6},
}
SLOWED = 'sm_clock_mhz = 900\nthrottle = ["hw_thermal"]'


@pytest.mark.long
def test_an_experiment_beside_a_job_on_a_throttled_gpu_says_so(box: Box) -> None:
    usual = box.submit("--gpus", "2", "--", "sleep", "8")
    box.ended(usual)
    with Client(box.home) as client:
        neighbour = client.submit(["sleep", "600"], gpus=1)
        box.until_phase(neighbour.id, "RUNNING")
        box.describe(described(2, extra=SLOWED))
        task_id = begun(client, **MEASURED)
        over(box, client, task_id)
        client.jobs.cancel(neighbour.id)
        row = client.experiments.list(task_id)[0]
    assert row.noise is not None
    (label,) = row.noise["throttled"]
    assert (row.noise["same_gpu"], row.noise["same_node"]) == ([], [f"job {neighbour.id}"])
    assert row.noise["throttled"][label] > 0.5
    assert row.noise["slow_clocks"][label]["mean_mhz"] == 900
    # The history knows the rank of a reading to 1 %.
    usual_mhz = row.noise["slow_clocks"][label]["usual_mhz"]
    assert 1395 <= usual_mhz <= 1425
    said = f"GPU {label} ran at 900 MHz, its model usually at {usual_mhz} MHz"
    assert said in box.ok("experiments", task_id)
    assert f"noise: experiment 1: {said}" in box.ok("tasks", "show", task_id)
    (first, *_) = box.api(f"/api/v1/tasks/{task_id}/experiments")["experiments"]
    assert said in first["disturbances"]


@pytest.mark.long
def test_a_process_of_somebody_else_on_its_gpu_is_told_and_nothing_is_claimed_that_was_not_read(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, **MEASURED)
        until(box, client, task_id, lambda row: row.status == "benchmarking")
        box.describe(described(2, extra='processes = [{ pid = 4242, user = "bob" }]'))
        row = until(box, client, task_id, lambda row: row.status == "success")
        client.tasks.cancel(task_id)
        over(box, client, task_id)
    assert row.noise is not None
    assert (row.noise["same_gpu"], row.noise["same_node"]) == (["process 4242 outside Corral"], [])
    assert "process 4242 outside Corral ran on its GPUs" in box.ok("experiments", task_id)


@pytest.mark.long
def test_an_experiment_of_the_same_task_on_its_node_is_named_as_that(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, **{**MEASURED, "parameters": {"max-num-seqs": [4, 8]}, "max_parallel": 2})
        row = until(box, client, task_id, lambda row: row.status == "success")
        client.tasks.cancel(task_id)
        over(box, client, task_id)
    assert row.noise is not None
    assert row.noise["same_node"] == [f"experiment {3 - row.experiment_id} of this task"]
    assert row.disturbances[0] == f"experiment {3 - row.experiment_id} of this task ran on its node at the same time"
