"""Weights counted from a config are those that the model's makers count."""

from typing import Any

import pytest

from corral.core.preflight.model_config import ModelShape, shape_of
from corral.core.preflight.weights import cache_elements_per_token, embedding_weights, layer_weights

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
        (FALCON_7B, 6.92),
    ],
    ids=lambda value: value if isinstance(value, float) else value["model_type"],
)
def test_a_models_weights_are_counted_to_one_percent(config: dict[str, Any], billions: float) -> None:
    counted = embedding_weights(shape(config)) + layer_weights(shape(config))
    assert counted / 1e9 == pytest.approx(billions, rel=0.01)


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
