"""What a task takes, as it is told before it begins."""

from typing import Any

import pytest

from corral.config.tuner import TunerSettings
from corral.features.tuner.finding_answers import TaskEstimate
from corral.features.tuner.model.tuning_spec import BenchmarkSpec, ServedModel, TuningSpec
from corral.features.tuner.tasks.obtainable_gpus import ObtainableGpus
from corral.features.tuner.tasks.task_estimate import estimate

EIGHT = ObtainableGpus({"a": {"A100": 8}, "b": {"A100": 8}}, 80 * 1024)


def estimated(parameters: dict[str, Any], gpus: ObtainableGpus = EIGHT, **fields: Any) -> TaskEstimate:
    spec = TuningSpec(
        "t",
        ServedModel(fields.pop("model", "of-my-own")),
        fields.pop("engine", "vllm"),
        parameters,
        benchmark=BenchmarkSpec(num_concurrency=(1,), max_time_per_iteration=60),
        **fields,
    )
    return estimate(spec, gpus, TunerSettings())


def test_an_exclusive_experiment_counts_all_gpus_of_its_node() -> None:
    shared, whole = estimated({"tp": [1, 2]}), estimated({"tp": [1, 2]}, exclusive=True)
    assert (shared.gpus_least, shared.gpus_most, shared.gpu_hours) == (1, 2, 4 * 1.5)
    assert (whole.gpus_least, whole.gpus_most, whole.gpu_hours) == (8, 8, 4 * 8)
    assert (
        "each experiment has all GPUs of its nodes (exclusive), and its server uses 1 to 2 GPUs of them" in whole.notes
    )


def test_a_combination_that_is_known_not_to_fit_is_not_counted() -> None:
    found = estimated({"tp": [1, 2, 4]}, model="org/llama-3-70b")
    assert (found.experiments, found.combinations, found.gpus_least) == (4, 3, 2)
    assert "1 combination of 3 cannot run and will not be tried; the first one: the model's weights" in found.notes[0]


@pytest.mark.parametrize(("strategy", "most"), [("grid_search", 6), ("random", 6), ("racing", 9)])
def test_a_combination_that_the_engine_cannot_run_is_not_counted(strategy: str, most: int) -> None:
    found = estimated({"tp": [1, 2], "dcp": [1, 2]}, optimization={"strategy": strategy})
    assert (found.experiments, found.combinations) == (most, 4)
    assert "1 combination of 4 cannot run" in found.notes[0]


def test_gpus_of_two_models_on_a_node_hold_no_server_together() -> None:
    found = estimated({"tp": [2, 4]}, ObtainableGpus({"a": {"A100": 2, "L4": 2}}, None))
    assert found.hours is None
    assert "it needs up to 4 GPUs of one model on one node, and the largest has 2" in found.notes[-1]


def test_conditions_that_no_gpu_meets_are_named() -> None:
    none = ObtainableGpus({"a": {}, "b": {}}, None)
    asked = estimated({"tp": [1]}, none, gpu_model=("V100",), min_memory="40G", prefer={"zone": "a"})
    assert (asked.hours, asked.notes[-1]) == (None, "no GPU here meets the task's gpu_model and min_memory")
    assert estimated({"tp": [1]}, none).notes[-1] == "this site has no GPU"


def test_a_task_without_a_combination_that_can_run_says_so_with_the_first_reason() -> None:
    found = estimated({"tp": [1]}, model="org/llama-3-70b")
    assert (found.experiments, found.gpu_hours, found.notes[0]) == (0, 0.0, "no combination can run")
    assert "weights alone need" in found.notes[1]
