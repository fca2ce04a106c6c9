"""Reads the shape of a transformer from its `config.json`, by the names of many families."""

import re
from collections.abc import Mapping
from typing import Any

from corral.core.preflight.encoders import encoder_weights
from corral.core.preflight.family_defaults import DEFAULTS, TIED, UNGATED
from corral.core.preflight.model_shape import Experts, LatentAttention, LinearAttention, ModelShape, SlidingWindow
from corral.core.preflight.plain_config import PlainConfig, number_in, numbers_in, text_in
from corral.core.preflight.precision import canonical
from corral.core.preflight.stored_format import stored_format

_TEXT_PARTS = ("thinker_config", "text_config", "llm_config", "language_config")
"""Where a config of several parts has the part for text."""

_LAYER_KINDS = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")

_OTHER_LAYERS = re.compile(
    r"mamba_|ssm_|rwkv|lru_width|altup_|block_configs|hybrid_|global_head_dim|moe_latent_size"
    r"|linear_attn_config|zero_expert|attn_layer_period|compress_ratio"
)
"""Beginnings of keys for layers that are not counted here."""


def shape_of(config: PlainConfig) -> ModelShape | str:
    """The shape that a parsed `config.json` describes, or a sentence why it is not a known transformer."""
    text = _text_part(config)
    needed = {
        "hidden_size": number_in(text, "hidden_size", "n_embd", "d_model", "dim"),
        "num_hidden_layers": number_in(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        "num_attention_heads": number_in(text, "num_attention_heads", "n_head", "n_heads"),
        "vocab_size": number_in(text, "vocab_size", "padded_vocab_size"),
    }
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        return f"it has no {', '.join(missing)}, so it is no transformer that is known here"
    hidden, layers, heads, vocab = (value or 0 for value in needed.values())
    other = _other_layers(text)
    if other is not None:
        return f"it has {other}, so it has layers that are not counted here"
    encoders = encoder_weights(config, hidden)
    if isinstance(encoders, str):
        return encoders
    family = str(text.get("model_type", ""))
    quantization, stored = stored_format(config.get("quantization_config") or text.get("quantization_config"), layers)
    return ModelShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(text, heads),
        head_dim=number_in(text, "head_dim", "kv_channels", "attention_head_dim") or hidden // heads,
        intermediate=_intermediate(text, family) or 4 * hidden,
        vocab=vocab,
        gated=family not in UNGATED,
        tied=bool(text.get("tie_word_embeddings", family in TIED)),
        positions=_positions(text, family),
        experts=_experts(text, layers, family),
        latent=_latent(text),
        linear=_linear(text, layers),
        window=_window(text, layers),
        encoders=encoders,
        predictors=_predictors(text, family),
        dtype=canonical(text_in(text, "torch_dtype", "dtype") or text_in(config, "torch_dtype", "dtype")),
        quantization=quantization,
        stored=stored,
        max_context=number_in(
            text, "max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"
        ),
    )


def _text_part(config: PlainConfig) -> PlainConfig:
    """The config of the text model. What a part leaves out has the value that its family has by default."""
    text: Mapping[str, Any] = config
    for name in _TEXT_PARTS:
        part = text.get(name)
        if isinstance(part, dict):
            text = {**text, **DEFAULTS.get(str(part.get("model_type", "")), {}), **part}
    nested = [part for name in ("ffn_config", "attn_config") if isinstance(part := text.get(name), dict)]
    return {**(nested[0] if nested else {}), **(nested[-1] if nested else {}), **text}


def _other_layers(text: PlainConfig) -> str | None:
    if text.get("is_encoder_decoder") is True:
        return "an encoder and a decoder"
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        other = next((kind for kind in kinds if kind not in _LAYER_KINDS), None)
        if other is not None:
            return f"layers of the type {other!r:.40}"
    elif text.get("layers_block_type") is not None:
        return "layers_block_type"
    if isinstance(kinds, list) and "linear_attention" in kinds and number_in(text, "linear_num_key_heads") is None:
        return "linear attention without its sizes"
    if 0 in (numbers_in(text, "attn_type_list", zero=True) or ()):
        return "attn_type_list"
    return next((str(key)[:40] for key, value in text.items() if value and _OTHER_LAYERS.match(str(key))), None)


def _intermediate(text: PlainConfig, family: str) -> int | None:
    """The width of a dense feed-forward layer; the mean where layers differ."""
    names = ("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    widths = numbers_in(text, "intermediate_size")
    if widths:
        return -(-sum(widths) // len(widths))
    width = number_in(text, *names)
    # The first Qwen has the sum of both of its halves there.
    return width // 2 if width is not None and family == "qwen" else width


def _positions(text: PlainConfig, family: str) -> int:
    """The rows of a learned table of positions."""
    if family in ("gpt2", "gpt_bigcode"):
        return number_in(text, "n_positions") or 0
    if family in ("opt", "bert", "roberta", "xlm-roberta", "mpnet", "electra"):
        return number_in(text, "max_position_embeddings") or 0
    return 0


def _kv_heads(text: PlainConfig, heads: int) -> int:
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        return 1
    return (
        number_in(text, "num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num")
        or heads
    )


def _experts(text: PlainConfig, layers: int, family: str) -> Experts | None:
    count = number_in(
        text, "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "num_routed_experts"
    )
    if count is None or count == 1:
        return None
    width = (
        number_in(text, "moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size", "ffn_hidden_size") or 0
    )
    shared = number_in(
        text, "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"
    )
    if shared is None:
        each = number_in(text, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
        # Llama 4 has one shared expert, and no key for it.
        shared = width * (each or int(family.startswith("llama4")))
    return Experts(count, width, _sparse_layers(text, layers), shared)


def _sparse_layers(text: PlainConfig, layers: int) -> int:
    """The number of layers with experts."""
    if (listed := numbers_in(text, "moe_layers", zero=True)) is not None:
        return min(layers, len(listed))
    if (each := numbers_in(text, "moe_layer_freq", zero=True)) is not None:
        return min(layers, sum(each))
    if isinstance(kinds := text.get("mlp_layer_types"), list):
        return min(layers, kinds.count("sparse"))
    dense = number_in(text, "first_k_dense_replace", "num_dense_layers", "moe_layer_start_index") or 0
    dense += len(numbers_in(text, "mlp_only_layers", zero=True) or ())
    step = (
        number_in(text, "decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step", "moe_layer_interval") or 1
    )
    return max(0, layers - dense) // step


def _latent(text: PlainConfig) -> LatentAttention | None:
    kv_rank = number_in(text, "kv_lora_rank")
    if kv_rank is None:
        return None
    return LatentAttention(
        kv_rank=kv_rank,
        query_rank=number_in(text, "q_lora_rank"),
        nope_dim=number_in(text, "qk_nope_head_dim") or 128,
        rope_dim=number_in(text, "qk_rope_head_dim") or 64,
        value_dim=number_in(text, "v_head_dim") or 128,
    )


def _linear(text: PlainConfig, layers: int) -> LinearAttention | None:
    key_heads, value_heads = number_in(text, "linear_num_key_heads"), number_in(text, "linear_num_value_heads")
    if key_heads is None or value_heads is None:
        return None
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        count = sum(1 for kind in kinds if kind == "linear_attention")
    else:
        count = layers - layers // (number_in(text, "full_attention_interval") or 4)
    key_dim, value_dim = number_in(text, "linear_key_head_dim"), number_in(text, "linear_value_head_dim")
    return LinearAttention(min(count, layers), key_heads, value_heads, key_dim or 128, value_dim or 128)


def _predictors(text: PlainConfig, family: str) -> int:
    said = number_in(text, "num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
    # Qwen3-Next has one, and no key for it.
    return min(said or int(family == "qwen3_next"), 8)


def _window(text: PlainConfig, layers: int) -> SlidingWindow | None:
    """The sliding window; None if it is off, or if its layers are not known."""
    kinds, family = text.get("layer_types"), text.get("model_type")
    tokens = number_in(text, "sliding_window", "attention_chunk_size")
    if tokens is None or text.get("use_sliding_window") is False:
        return None
    if isinstance(kinds, list):
        count = kinds.count("sliding_attention") + kinds.count("chunked_attention")
        return SlidingWindow(tokens, min(layers, count))
    if family in ("mistral", "mixtral"):
        return SlidingWindow(tokens, layers)
    step = number_in(text, "sliding_window_pattern") or {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6}.get(str(family))
    return None if step is None else SlidingWindow(tokens, layers - layers // step)
