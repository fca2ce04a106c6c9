"""Combinations that are known by a name."""

from typing import Any

import pytest

from corral.core.model.serving.presets import without_presets
from corral.features.tuner.engines.inference_engine import find_inference_engine
from corral.features.tuner.search.space import read_space


def test_presets_are_tried_one_by_one_with_every_other_parameter() -> None:
    task = {
        "parameters": {"x": [1, 2]},
        "parallel_config": {"presets": ["single-gpu", "balanced"]},
        "quant_config": {"preset": "kv-cache-fp8"},
    }
    tried = list(read_space(task).grid())
    assert [one["__parallel__preset"] for one in tried] == ["single-gpu", "balanced"] * 2
    assert {one["__quant__preset"] for one in tried} == {"kv-cache-fp8"}
    assert without_presets(tried[1]) == {
        "__parallel__tp": 2, "__parallel__pp": 1, "__parallel__dp": 4,
        "__quant__gemm_dtype": "auto", "__quant__kvcache_dtype": "fp8_e5m2", "x": 1,
    }  # fmt: skip


def test_what_is_said_beside_a_preset_counts_more() -> None:
    said = without_presets({"__quant__kvcache_dtype": "auto", "__quant__preset": "dynamic-fp8"})
    assert said == {"__quant__gemm_dtype": "fp8", "__quant__kvcache_dtype": "auto"}


SPREAD = "--tensor-parallel-size 2 --pipeline-parallel-size 1"


@pytest.mark.parametrize(
    ("engine", "parameters", "flags"),
    [
        ("vllm", {"__parallel__preset": "balanced"}, f"{SPREAD} --data-parallel-size 4"),
        ("vllm", {"__quant__preset": "default"}, "--kv-cache-dtype auto"),
        ("vllm", {"__quant__preset": "dynamic-fp8"}, "--quantization fp8 --kv-cache-dtype fp8_e5m2"),
        ("sglang", {"__quant__preset": "bf16-stable"}, "--dtype bfloat16 --kv-cache-dtype fp8_e5m2"),
        (
            "sglang",
            {"__quant__preset": "aggressive-moe"},
            "--dtype bfloat16 --kv-cache-dtype fp8_e5m2 --quantization w4afp8",
        ),
    ],
)  # fmt: skip
def test_an_engine_has_the_flags_of_a_preset(engine: str, parameters: dict[str, Any], flags: str) -> None:
    found = find_inference_engine(engine)
    assert found.why_not(parameters) is None
    assert " ".join(found.command("m", parameters, host="h", port="1")).endswith(f"--port 1 {flags}")


def test_a_preset_that_an_engine_cannot_run_is_not_tried_with_it() -> None:
    assert find_inference_engine("vllm").why_not({"__quant__preset": "aggressive-moe"}) == (
        "moe_dtype cannot be used with vllm"
    )


def test_a_preset_may_be_the_default() -> None:
    engine = find_inference_engine("vllm")
    assert engine.is_default({"__parallel__preset": "single-gpu", "__quant__preset": "default"})
    assert not engine.is_default({"__parallel__preset": "balanced"})
    assert find_inference_engine("stand-in").is_default({"__parallel__preset": "single-gpu", "max-num-seqs": 4})
