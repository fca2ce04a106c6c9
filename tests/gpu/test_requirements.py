"""How a tuning task is sized."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.errors import Refused
from corral.gpu import estimate_gpu_requirements
from corral.gpu.requirements import memory_mb_per_gpu, model_billions
from corral.tuner.gpu_estimate import GpuEstimate, gpu_estimate


def task(parameters: dict[str, Any], model: str = "llama-3-70b", **more: Any) -> dict[str, Any]:
    return {"model": {"id_or_path": model}, "parameters": parameters, **more}


def test_the_documented_example() -> None:
    config = task({"tp-size": [1, 2, 4], "pp-size": [1], "dp-size": [1]})
    assert estimate_gpu_requirements(config) == (4, 20_000)


def test_the_world_is_tensor_times_pipeline_times_the_largest_of_the_data_axes() -> None:
    assert estimate_gpu_requirements(task({"tp": 2, "pp": 3, "dp": 2, "dcp": 4, "cp": 1}))[0] == 2 * 3 * 4


AXES = {
    "tensor": ("tensor-parallel-size", "tp-size", "tp_size", "tp", "tpsize", "__parallel__tp"),
    "pipeline": ("pipeline-parallel-size", "pp-size", "pp_size", "pp"),
    "data": ("data-parallel-size", "dp-size", "dp_size", "dp"),
    "context": ("context-parallel-size", "cp-size", "cp_size", "cp"),
    "decode context": ("decode-context-parallel-size", "dcp-size", "dcp_size", "dcp"),
}


@pytest.mark.parametrize("spelling", [name for names in AXES.values() for name in names])
@pytest.mark.parametrize(
    "value", [4, [1, 4], (4, 2), "4", {"type": "choice", "values": [2, 4]}, {"type": "categorical", "choices": [4]},
              {"type": "integer", "low": 1, "high": 4}],
)  # fmt: skip
def test_every_spelling_and_every_form_is_understood(spelling: str, value: Any) -> None:
    assert estimate_gpu_requirements(task({spelling: value}))[0] == 4


def test_parameters_that_size_nothing_are_passed_over() -> None:
    assert estimate_gpu_requirements(task({"mem-fraction-static": [0.7, 0.8], "tp-size": []}))[0] == 1


def test_a_choice_among_combinations_is_sized_by_the_largest_of_them_not_by_their_maxima() -> None:
    choice = [{"tp": 8, "pp": 1}, {"tp": 2, "pp": 2}]
    assert estimate_gpu_requirements(task({}, parallel_config=choice))[0] == 8
    assert estimate_gpu_requirements(task({}, parallel_config={"type": "choice", "values": choice}))[0] == 8


def test_one_parallel_configuration_may_list_values() -> None:
    assert estimate_gpu_requirements(task({}, parallel_config={"tp": [1, 2], "pp": 2}))[0] == 4


def test_combinations_that_the_runtime_refuses_are_not_sized() -> None:
    parameters = {"tp-size": [4], "dp-size": [1, 2, 8]}
    assert estimate_gpu_requirements(task(parameters))[0] == 32
    assert estimate_gpu_requirements(task(parameters, base_runtime="sglang"))[0] == 8
    assert estimate_gpu_requirements(task(parameters, base_runtime="tensorrt-llm"))[0] == 4


def test_a_task_whose_runtime_takes_nothing_of_it_is_refused() -> None:
    with pytest.raises(Refused, match="no combination of them can run with sglang"):
        estimate_gpu_requirements(task({"tp": 2, "dp": 3}, base_runtime="sglang"))


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "four", [2, 0], {"type": "choice"}, 5000])
def test_a_size_that_is_none_is_refused_by_name(value: Any) -> None:
    with pytest.raises(Refused, match="tp-size"):
        estimate_gpu_requirements(task({"tp-size": value}))


def test_a_task_without_anything_needs_one_gpu_of_unknown_size() -> None:
    assert estimate_gpu_requirements({}) == (1, 8_000)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.lists(st.integers(1, 8), min_size=1, max_size=4))
def test_without_rules_the_largest_combination_is_that_of_the_largest_values(tp: list[int], dp: list[int]) -> None:
    assert estimate_gpu_requirements(task({"tp": tp, "dp": dp}))[0] == max(tp) * max(dp)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-3-70b", 70),
        ("meta-llama/Llama-3.1-8B", 8),
        ("Qwen/Qwen2.5-0.5B-Instruct", 0.5),
        ("a-17b-model", 17),
        ("Meta-Llama-3-70B-Instruct", 70),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 56),
        ("Qwen/Qwen3-235B-A22B", 235),
        ("qwen3-30b-a3b", 30),
        ("llama2-13b-chat-hf", 13),
        ("vicuna7b", 7),
        ("opt-6.7b", 6.7),
        ("model.7b.gguf", 7),
        ("/data/7b-models/llama-70b", 70),
        ("/hub/models--meta-llama--Llama-2-7b-hf/snapshots/5f0b02c75b57c5855da9ae460ce51323ea669d8a", 7),
        ("llama-4bit", None),
        ("gpt2", None),
        ("base", None),
        ("", None),
    ],
)
def test_the_size_of_a_model_is_read_from_its_name(name: str, billions: float | None) -> None:
    found = model_billions(name)
    assert (found if found is None else float(found)) == billions


@pytest.mark.parametrize(
    ("name", "world_size", "memory_mb"),
    [
        ("x-6.9b", 1, 8_000), ("x-7b", 1, 12_000), ("x-13b", 1, 12_000), ("x-13.1b", 1, 20_000), ("x-17b", 1, 20_000),
        ("x-70b", 8, 20_000), ("x-72b", 1, 172_800), ("x-72b", 8, 21_600), ("x-72b", 16, 20_000),
        ("x-671b", 7, math.ceil(2_400 * 671 / 7)), ("x", 4, 8_000),
    ],
)  # fmt: skip
def test_memory_goes_by_the_table(name: str, world_size: int, memory_mb: int) -> None:
    assert memory_mb_per_gpu(model_billions(name), world_size) == memory_mb


def test_a_model_may_be_named_by_a_bare_string() -> None:
    assert estimate_gpu_requirements({"model": "llama-7b"}) == (1, 12_000)


@pytest.mark.parametrize("config", [{"parameters": [1]}, {"parameters": {}, "parallel_config": [4]}, ["tp"]])
def test_what_should_be_a_mapping_and_is_none_is_refused(config: Any) -> None:
    with pytest.raises(Refused, match="must be a mapping of names to values"):
        estimate_gpu_requirements(config)


def test_a_preset_is_sized_by_its_fields_in_each_place_where_a_task_may_name_it() -> None:
    named = ["single-gpu", "large-model-tp"]
    assert estimate_gpu_requirements(task({}, parallel_config={"presets": named}))[0] == 8
    assert estimate_gpu_requirements(task({}, parallel_config={"preset": "large-model-tp", "pp": 2}))[0] == 16
    assert estimate_gpu_requirements(task({"__parallel__preset": named}))[0] == 8
    assert estimate_gpu_requirements(task({"__quant__preset": ["dynamic-fp8"]}))[0] == 1


def test_a_preset_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="did you mean 'large-model-tp'"):
        estimate_gpu_requirements(task({}, parallel_config={"preset": "large-model"}))


@pytest.mark.parametrize(
    "model", ["x-6.9b", "x-14b", "x-30b", "x-34b", "Mixtral-8x7B", "x-405b", "/models/70b/gpt2", "gpt2"]
)
@pytest.mark.parametrize("parameters", [{}, {"tp": 2, "dp": 3, "dcp": 2}, {"__parallel__preset": "balanced"}])
def test_one_combination_has_the_figures_of_a_task_with_it_alone(model: str, parameters: dict[str, Any]) -> None:
    assert gpu_estimate(model, parameters) == estimate_gpu_requirements(task(parameters, model))


def test_the_gpus_of_one_combination() -> None:
    assert gpu_estimate("llama-3-70b", {"tp-size": 4}) == GpuEstimate(4, 20_000)
    assert gpu_estimate("llama-7b", {"tp": 2, "dp": 3, "dcp": 2}) == GpuEstimate(6, 12_000)
