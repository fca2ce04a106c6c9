"""What is known not to run before it is tried."""

import json
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.answers.devices import DeviceRow
from corral.features.tuner.engines.inference_engine import find_inference_engine
from corral.features.tuner.model.tuning_spec import ServedModel, TuningSpec
from corral.features.tuner.search.problem import read_problem
from corral.features.tuner.tasks.known_limits import TOLD, WhyNot, left_out, local_model, why_not
from corral.features.tuner.tasks.obtainable_gpus import most_memory_mib

GIB = 1024
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
"""A model with 70 billion parameters: 141 GB of weights."""


def limits(directory: Path, *memory_mib: int | None) -> WhyNot:
    (directory / "config.json").write_text(json.dumps(CONFIG))
    spec = TuningSpec("t", ServedModel(str(directory)), "vllm")
    model = local_model(spec, {})
    assert model is not None
    devices = [DeviceRow(f"GPU-{index}", memory_total_mib=size) for index, size in enumerate(memory_mib)]
    return why_not(spec, find_inference_engine("vllm"), model, most_memory_mib(devices))


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({}, "the model's weights alone need a GPU with 13"),
        ({"tp-size": 2}, None),
        ({"__parallel__preset": "high-throughput"}, "80G are 5"),
        ({"pp": 2}, None),
        ({"__quant__gemm_dtype": "fp8"}, None),
        ({"quantization": "of-my-own"}, None),
        ({"enable-expert-parallel": True}, "alone need a GPU"),
        ({"tp": "two"}, "tp: 'two' is no size of parallelism"),
        ({"gpu-memory-utilization": 0.5, "tp": 2}, "alone need a GPU"),
        ({"tp": 3}, "64 attention heads, which cannot be split evenly over 3 GPUs"),
        ({"moe_tp": 2}, "moe_tp cannot be used with vllm"),
    ],
)
def test_a_combination_that_cannot_run_says_why(tmp_path: Path, parameters: dict[str, Any], why: str | None) -> None:
    said = limits(tmp_path, 80 * GIB, 24 * GIB)(parameters)
    assert said is None if why is None else why in (said or "")


def test_the_log_names_the_first_combinations_that_are_not_tried_and_counts_the_others(tmp_path: Path) -> None:
    task = {"parameters": {"tp-size": [1, 2], "max-num-seqs": list(range(1, 9))}}
    lines = list(left_out(read_problem(task, why_not=limits(tmp_path, 80 * GIB))))
    assert lines[0].startswith("not tried, because it cannot run: tp-size 1, max-num-seqs 1: the model's weights alone")
    assert lines[TOLD:] == ["not tried, because they cannot run: 3 further combinations"]
    assert list(left_out(read_problem(task))) == []


def test_where_the_memory_of_a_gpu_is_not_known_nothing_is_left_out_for_memory(tmp_path: Path) -> None:
    assert limits(tmp_path, 24 * GIB, None)({}) is None
    assert limits(tmp_path)({}) is None


def test_of_a_model_that_is_not_here_its_name_tells_or_nothing(tmp_path: Path) -> None:
    engine = find_inference_engine("vllm")

    def limit(name: str) -> str | None:
        spec = TuningSpec("t", ServedModel(name), "vllm")
        assert local_model(spec, {"HOME": str(tmp_path)}) is None
        return why_not(spec, engine, None, 16 * GIB)({})

    assert "alone need a GPU" in str(limit("org/llama-3-70b"))
    assert limit("org/llama-3-8b-awq") is None
    assert limit(str(tmp_path / "of-my-own")) is None
