"""What a server needs of its GPUs: as its parameters spread and store the model, for the requests that are expected."""

from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.core.preflight.model_need import ModelNeed, model_need
from corral.core.preflight.model_source import LocalModel
from tests.core.preflight.test_estimate import DEEPSEEK_V3, LLAMA_3_8B, MIXTRAL_8X7B, shape

GIB = 1024


def need(engine: str, parameters: dict[str, Any], name: str = "llama-3-70b", **more: Any) -> ModelNeed:
    return model_need(name, engine, parameters, **more)


def weights_mib(config: dict[str, Any], engine: str, parameters: dict[str, Any]) -> int:
    found = need(engine, parameters, model=LocalModel("/m", shape(config), None)).estimate
    assert found is not None
    return found.weights_mib


def test_the_memory_of_a_gpu_holds_weights_cache_and_overhead_within_the_fraction_that_the_server_takes() -> None:
    alone = need("sglang", {"tp": 2}, context=1000, concurrency=8)
    assert alone.gpus == 2
    assert alone.estimate is not None
    assert alone.min_memory_mib == alone.estimate.total_mib
    assert alone.estimate.cache_mib == pytest.approx(80 * 2 * 4 * 128 * 2 * 1000 * 8 / 2**20, abs=1)
    half = need("sglang", {"tp": 2, "mem_fraction_static": 0.5}, context=1000, concurrency=8)
    assert half.min_memory_mib == 2 * alone.min_memory_mib
    vllm = need("vllm", {"tp": 2}, context=1000, concurrency=8)
    assert vllm.min_memory_mib == pytest.approx(alone.min_memory_mib / 0.92, abs=1)


def test_a_gpu_that_cannot_hold_the_weights_is_told_by_how_much_and_another_is_not() -> None:
    found = need("vllm", {"tp": 2}, context=1000)
    assert found.floor_mib is not None
    assert found.min_memory_mib is not None
    assert 62 * GIB < found.floor_mib < found.min_memory_mib < 80 * GIB
    why = found.why_not_on(40 * GIB)
    assert why is not None
    assert "40G are" in why
    assert found.why_not_on(80 * GIB) is None
    assert found.why_not_on(None) is None


@pytest.mark.parametrize(
    ("name", "parameters", "why"),
    [
        ("of-my-own", {}, "states no size such as 7B"),
        ("llama-3-70b", {"quantization": "of-my-own"}, "quantization 'of-my-own' is not known"),
        ("llama-3-70b", {"__quant__kvcache_dtype": "fp3"}, "'fp3' is not known"),
        ("llama-3-70b-gguf", {}, "gguf"),
    ],
)
def test_what_cannot_be_known_is_none_and_says_why(name: str, parameters: dict[str, Any], why: str) -> None:
    found = need("vllm", {"tp": 4, **parameters}, name)
    assert (found.gpus, found.min_memory_mib, found.floor_mib, found.estimate) == (4, None, None, None)
    assert why in found.source
    assert found.why_not_on(1) is None


def test_a_size_of_parallelism_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="tp"):
        need("vllm", {"tp": "two"})


def test_replicas_share_the_requests() -> None:
    alone, four = need("vllm", {}, concurrency=64), need("vllm", {"dp": 4}, concurrency=64)
    assert alone.estimate is not None
    assert four.estimate is not None
    assert (four.gpus, four.estimate.batch) == (4, 16)
    assert four.estimate.cache_mib == alone.estimate.cache_mib // 4


@pytest.mark.parametrize("limit", ["max-num-seqs", "max_running_requests"])
def test_the_servers_own_limits_bound_the_requests(limit: str) -> None:
    found = need("vllm", {limit: 2, "max-model-len": 512}, context=1000, concurrency=64).estimate
    assert found is not None
    assert (found.batch, found.context) == (2, 512)


def test_vllm_needs_room_for_the_longest_sequence_that_it_accepts_and_sglang_does_not() -> None:
    long = {"max-model-len": 131072, "context-length": 131072}
    vllm, sglang = need("vllm", long, context=1000).estimate, need("sglang", long, context=1000).estimate
    assert vllm is not None
    assert sglang is not None
    assert (vllm.context, sglang.context) == (131072, 1000)


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ({"quantization": "fp8"}, 0.52),
        ({"__quant__gemm_dtype": "fp8"}, 0.52),
        ({"__quant__preset": "dynamic-fp8"}, 0.52),
        ({"__quant__gemm_dtype": "bfloat16"}, 1.0),
        ({"dtype": "float32"}, 2.0),
        ({"quantization": "auto", "dtype": "auto"}, 1.0),
    ],
)
def test_the_parameters_say_in_which_format_the_weights_are(parameters: dict[str, Any], part: float) -> None:
    usual, found = need("vllm", {}).estimate, need("vllm", parameters).estimate
    assert usual is not None
    assert found is not None
    assert found.weights_mib / usual.weights_mib == pytest.approx(part, rel=0.02)


def test_a_cache_in_eight_bits_takes_half() -> None:
    usual = need("vllm", {}, context=8192, concurrency=8).estimate
    half = need("vllm", {"kv-cache-dtype": "fp8_e5m2"}, context=8192, concurrency=8).estimate
    assert usual is not None
    assert half is not None
    assert half.cache_mib == usual.cache_mib // 2


def test_vllm_splits_experts_over_replicas_and_sglang_does_not() -> None:
    alone = weights_mib(MIXTRAL_8X7B, "vllm", {"tp": 2})
    assert weights_mib(MIXTRAL_8X7B, "vllm", {"tp": 2, "dp": 4}) < 0.35 * alone
    assert weights_mib(MIXTRAL_8X7B, "sglang", {"tp": 2, "dp": 4}) == alone
    assert weights_mib(LLAMA_3_8B, "vllm", {"tp": 2, "dp": 4}) == weights_mib(LLAMA_3_8B, "vllm", {"tp": 2})


def test_attention_by_replicas_has_its_weights_on_each_of_them() -> None:
    alone = weights_mib(DEEPSEEK_V3, "sglang", {"tp": 8})
    shared = weights_mib(DEEPSEEK_V3, "sglang", {"tp": 8, "dp": 8, "enable-dp-attention": True})
    attention_mib = 61 * 187e6 / 2**20
    assert shared - alone == pytest.approx(attention_mib * 7 / 8, rel=0.1)


def test_a_cache_that_is_split_by_tokens_is_smaller_on_each_gpu() -> None:
    usual = need("vllm", {"tp": 8}, context=8192).estimate
    split = need("vllm", {"tp": 8, "dcp": 8}, context=8192).estimate
    assert usual is not None
    assert split is not None
    assert split.cache_mib == usual.cache_mib // 8


@pytest.mark.parametrize(
    "value", [10**400, -1, 0, 1.5, float("nan"), float("inf"), "x" * 10_000, None, [1], {"a": 1}, True]
)
@pytest.mark.parametrize(
    "name",
    [
        *("max-model-len", "max-num-seqs", "max-num-batched-tokens", "gpu-memory-utilization", "quantization", "dtype"),
        *("kv-cache-dtype", "enable-dp-attention"),
    ],
)
def test_no_value_of_a_parameter_breaks_the_estimate(name: str, value: Any) -> None:
    for engine in ("vllm", "sglang", "tensorrt-llm", "our-own"):
        assert need(engine, {"tp": 2, "dp": 2, name: value}, context=10**400, concurrency=10**400).gpus >= 2
