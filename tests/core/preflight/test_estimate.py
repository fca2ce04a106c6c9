"""What a model needs is estimated from its config, else from its name, else from the least, and the source is said."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.errors import Refused
from corral.core.preflight.estimate import (
    Estimate,
    InferenceSetup,
    cache_elements_per_token,
    estimate_local,
    estimate_named,
    parse_context,
)
from corral.core.preflight.model_config import shape_of
from corral.core.preflight.model_shape import ModelShape
from corral.core.preflight.model_source import LocalModel, find_model
from corral.core.preflight.weights import all_weights

LLAMA_3_8B: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "max_position_embeddings": 8192,
}  # fmt: skip


LLAMA_2_70B: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 32000, "tie_word_embeddings": False,
    "torch_dtype": "float16", "max_position_embeddings": 4096,
}  # fmt: skip


MIXTRAL_8X7B: dict[str, Any] = {
    "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8,
    "tie_word_embeddings": False, "sliding_window": None,
}  # fmt: skip


QWEN_3_30B_A3B: dict[str, Any] = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_experts": 128, "decoder_sparse_step": 1, "vocab_size": 151936, "tie_word_embeddings": False,
}  # fmt: skip


DEEPSEEK_V3: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
    "tie_word_embeddings": False, "quantization_config": {"quant_method": "fp8"},
}  # fmt: skip


GPT_2: dict[str, Any] = {
    "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
}  # fmt: skip


FALCON_7B: dict[str, Any] = {
    "model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
    "multi_query": True, "vocab_size": 65024,
}  # fmt: skip


def model(config: dict[str, Any], weight_bytes: int | None = None) -> LocalModel:
    return LocalModel("/m", shape(config), weight_bytes)


def test_an_8b_model_in_16_bits_weighs_15_gib_and_caches_128_kib_a_token() -> None:
    estimate = estimate_local(model(LLAMA_3_8B), InferenceSetup(context=8192, batch=4))
    assert estimate.weights_mib == pytest.approx(8.03e9 * 2 / 2**20, rel=0.012)
    assert estimate.cache_mib == 4 * 8192 * 128 // 1024
    assert estimate.total_mib == estimate.need_mib + estimate.cache_mib
    assert estimate.source == "/m/config.json"


def test_a_70b_model_over_four_devices_leaves_a_quarter_on_each() -> None:
    alone = estimate_local(model(LLAMA_2_70B), InferenceSetup())
    spread = estimate_local(model(LLAMA_2_70B), InferenceSetup(tensor_parallel=4))
    assert spread.weights_mib == pytest.approx(alone.weights_mib / 4, rel=0.01)
    assert spread.cache_mib == pytest.approx(alone.cache_mib / 4, abs=1)
    assert spread.overhead_mib > alone.overhead_mib
    assert alone.need_mib > 81920 > spread.total_mib


def test_a_quantised_model_stays_so_whatever_dtype_is_asked() -> None:
    estimate = estimate_local(model(DEEPSEEK_V3), InferenceSetup(tensor_parallel=8, dtype="half"))
    assert 672e9 / 8 / 2**20 < estimate.weights_mib < 1.03 * 672e9 / 8 / 2**20


def test_quantising_on_the_fly_halves_the_layers_and_leaves_the_embeddings() -> None:
    plain = estimate_local(model(LLAMA_3_8B), InferenceSetup())
    quantised = estimate_local(model(LLAMA_3_8B), InferenceSetup(quantization="fp8"))
    assert 0.5 < quantised.weights_mib / plain.weights_mib < 0.6


def test_measured_weights_count_when_they_are_used_as_they_are() -> None:
    measured = model(LLAMA_3_8B, weight_bytes=10 * 2**30)
    estimate = estimate_local(measured, InferenceSetup(dtype="half"))
    assert estimate.weights_mib == 10 * 1024
    assert "size of its weight files" in estimate.source
    assert estimate_local(measured, InferenceSetup(dtype="float32")).weights_mib > 20 * 1024


def test_a_sliding_window_bounds_the_cache() -> None:
    windowed = {**LLAMA_3_8B, "model_type": "mistral", "sliding_window": 1024}
    assert estimate_local(model(windowed), InferenceSetup(context=8192)).cache_mib == 128


def named(name: str, setup: InferenceSetup) -> Estimate:
    found = estimate_named(name, setup)
    assert isinstance(found, Estimate), found
    return found


def test_a_name_with_a_size_is_estimated_at_the_upper_end_of_what_such_names_mean_and_says_so() -> None:
    estimate = named("org/Some-70B", InferenceSetup(tensor_parallel=4, dtype="half", context=4096))
    assert 70e9 * 2 / 4 / 2**20 < estimate.weights_mib < 1.15 * 70e9 * 2 / 4 / 2**20
    assert estimate.least_weights_mib < 70e9 * 2 / 4 / 2**20
    assert "70 billion parameters in the name" in estimate.source
    assert named("org/Some-70B-AWQ", InferenceSetup()).weights_mib < 46_000


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("of-my-own", "states no size such as 7B"),
        ("0b", "states no size"),
        ("/models/base", "states no size"),
        ("Llama-5-Tern-17B-16E", "the weights which one token uses"),
        ("Some-70B-GGUF", "the size of weights in gguf is not known"),
    ],
)
def test_a_name_that_tells_too_little_has_no_estimate_and_says_why(name: str, why: str) -> None:
    assert why in str(estimate_named(name, InferenceSetup()))


def test_the_longest_context_that_fits_is_found() -> None:
    estimate = estimate_local(model(LLAMA_3_8B), InferenceSetup(context=131072, batch=4))
    fitting = estimate.fitting_context(24576)
    assert fitting is not None
    assert fitting % 1024 == 0
    assert estimate_local(model(LLAMA_3_8B), InferenceSetup(context=fitting, batch=4)).total_mib <= 24576
    assert estimate_local(model(LLAMA_3_8B), InferenceSetup(context=fitting + 2048, batch=4)).total_mib > 24576
    assert estimate.fitting_context(1000) is None


@given(
    tensor=st.sampled_from([1, 2, 4, 8]),
    pipeline=st.integers(1, 4),
    batch=st.integers(1, 64),
    context=st.integers(1, 8192),
)
def test_more_devices_never_need_more_weights_or_cache_each(
    tensor: int, pipeline: int, batch: int, context: int
) -> None:
    def on(tensor: int, pipeline: int) -> tuple[int, int]:
        load = InferenceSetup(tensor, pipeline, context=context, batch=batch)
        estimate = estimate_local(model(LLAMA_3_8B), load)
        return estimate.weights_mib, estimate.cache_mib

    fewer, more = on(tensor, pipeline), on(2 * tensor, 2 * pipeline)
    assert more[0] <= fewer[0]
    assert more[1] <= fewer[1]


@pytest.mark.parametrize(("text", "tokens"), [("32k", 32768), ("8192", 8192), ("128K", 131072)])
def test_a_context_is_read(text: str, tokens: int) -> None:
    assert parse_context(text) == tokens


@pytest.mark.parametrize("text", ["", "k", "0", "-1", "32m", "1.5k"])
def test_what_is_no_context_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="8192 or 32k"):
        parse_context(text)


def write_model(path: Path, config: Any = LLAMA_3_8B) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def test_a_directory_is_found_and_its_weight_files_measured(tmp_path: Path) -> None:
    path = write_model(tmp_path / "llama")
    found = find_model("llama", {}, tmp_path)
    assert found is not None
    assert found.weight_bytes is None
    (path / "model.safetensors").write_bytes(b"x" * 1000)
    found = find_model("llama", {}, tmp_path)
    assert found is not None
    assert found.weight_bytes == 1000
    (path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 2000}}')
    found = find_model("llama", {}, tmp_path)
    assert found is not None
    assert found.weight_bytes == 2000


def test_a_name_is_found_in_the_local_cache(tmp_path: Path) -> None:
    write_model(tmp_path / "hub" / "models--org--llama" / "snapshots" / "abc")
    found = find_model("org/llama", {"HF_HOME": str(tmp_path)}, tmp_path)
    assert found is not None
    assert found.shape.layers == 32
    assert find_model("org/other", {"HF_HOME": str(tmp_path)}, tmp_path) is None


@pytest.mark.parametrize(
    ("config", "words"), [("{", "is not JSON"), ("[]", "not a JSON object"), ("{}", "it has no hidden_size")]
)
def test_a_config_that_cannot_be_understood_is_named(tmp_path: Path, config: str, words: str) -> None:
    write_model(tmp_path / "m", config)
    with pytest.raises(Refused, match=rf"config\.json.*{words}"):
        find_model("m", {}, tmp_path)


def test_a_directory_without_a_config_is_named(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with pytest.raises(Refused, match=r"has no config\.json"):
        find_model("m", {}, tmp_path)


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_config_is_named_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    os.mkfifo(tmp_path / "m" / "config.json")
    with pytest.raises(Refused, match=r"config\.json cannot be read: it is not a regular file"):
        find_model("m", {}, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 10**400},
        {"num_hidden_layers": 10**400, "num_attention_heads": 2**60},
        {"vocab_size": 10**9, "intermediate_size": 10**9, "hidden_size": 10**9, "num_hidden_layers": 10**9},
        {"quantization_config": {"config_groups": {"a": {"weights": ["int4"]}}}},
        {"quantization_config": {"config_groups": {"a": {"weights": {"num_bits": [4]}}}}},
        {"sliding_window": 10**400, "max_position_embeddings": 10**400},
    ],
)
def test_no_number_in_a_config_breaks_the_estimate(tmp_path: Path, change: dict[str, Any]) -> None:
    write_model(tmp_path / "m", {**LLAMA_3_8B, **change})
    try:
        found = find_model("m", {}, tmp_path)
    except Refused:
        return
    assert found is not None
    assert estimate_local(found, InferenceSetup(tensor_parallel=2)).total_mib > 0


@pytest.mark.parametrize("name", ["9" * 400 + "b", "9" * 400 + "x7b", "1x" + "9" * 400 + "b", "9" * 400 + "m"])
def test_no_number_in_a_name_breaks_the_estimate(name: str) -> None:
    assert estimate_named(name, InferenceSetup())


def shape(config: dict[str, Any]) -> ModelShape:
    read = shape_of(config)
    assert isinstance(read, ModelShape), read
    return read


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (LLAMA_3_8B, 8.03),
        (LLAMA_2_70B, 68.98),
        (MIXTRAL_8X7B, 46.7),
        (QWEN_3_30B_A3B, 30.5),
        (DEEPSEEK_V3, 671.0),
        (GPT_2, 0.124),
        (FALCON_7B, 7.22),
    ],
    ids=lambda value: value if isinstance(value, float) else value["model_type"],
)
def test_a_models_weights_are_counted_to_one_percent(config: dict[str, Any], billions: float) -> None:
    assert all_weights(shape(config)) / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(
    ("config", "tensor_parallel", "elements"),
    [
        (LLAMA_3_8B, 1, 2 * 8 * 128),
        (LLAMA_3_8B, 4, 2 * 2 * 128),
        (LLAMA_3_8B, 16, 2 * 1 * 128),
        (FALCON_7B, 1, 2 * 64),
        (DEEPSEEK_V3, 8, 512 + 64),
    ],
)
def test_the_cache_of_a_token_is_spread_over_devices_as_far_as_its_heads_go(
    config: dict[str, Any], tensor_parallel: int, elements: int
) -> None:
    assert cache_elements_per_token(shape(config), tensor_parallel) == elements
