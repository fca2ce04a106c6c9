"""The shape of a transformer from its `config.json`: all that its memory depends on, by the names of many families."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.core.preflight.precision import canonical

_UNGATED = frozenset(
    {
        "bloom",
        "codegen",
        "falcon",
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "gpt_neox",
        "gptj",
        "mpt",
        "opt",
        "phi",
        "starcoder2",
    }
)
"""The families whose feed-forward layers have two matrices. Those of other families have a gate, and three."""
_TIED = frozenset({"bloom", "falcon", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_bigcode", "gpt_neo", "opt"})
"""The families that use one matrix for input and output, unless their config says otherwise."""


_LARGEST = 10**9
"""The largest number that is accepted in a config; larger ones are not real, and would overflow."""


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in `layers` layers: `count` routed experts of width `width`, and one always active."""

    count: int
    width: int
    layers: int
    shared_width: int = 0


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Attention with one compressed vector per token in its cache (multi-head latent attention)."""

    kv_rank: int
    query_rank: int | None
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers that determine a model's memory. Widths are in elements.

    `window_layers` layers cache at most `window` tokens.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    gated: bool = True
    tied: bool = False
    positions: int = 0
    experts: Experts | None = None
    latent: LatentAttention | None = None
    window: int | None = None
    window_layers: int = 0
    dtype: str | None = None
    quantization: str | None = None
    max_context: int | None = None


def shape_of(config: Mapping[str, Any]) -> ModelShape | str:
    """The shape that a parsed `config.json` describes, or a sentence why it is not a known transformer."""
    text = {**config, **config["text_config"]} if isinstance(config.get("text_config"), dict) else config
    hidden = _int(text, "hidden_size", "n_embd", "d_model")
    layers = _int(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    heads = _int(text, "num_attention_heads", "n_head", "n_heads")
    vocab = _int(text, "vocab_size")
    missing = [
        name
        for name, value in (
            ("hidden_size", hidden),
            ("num_hidden_layers", layers),
            ("num_attention_heads", heads),
            ("vocab_size", vocab),
        )
        if not value
    ]
    if not (hidden and layers and heads and vocab):
        return f"it has no {', '.join(missing)}, so it is no transformer that is known here"
    family = str(text.get("model_type", ""))
    window, window_layers = _window(text, layers)
    return ModelShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(text, heads),
        head_dim=_int(text, "head_dim") or hidden // heads,
        intermediate=_int(text, "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size") or 4 * hidden,
        vocab=vocab,
        gated=family not in _UNGATED,
        tied=bool(text.get("tie_word_embeddings", family in _TIED)),
        positions=_int(text, "n_positions") or 0 if family in ("gpt2", "gpt_bigcode") else 0,
        experts=_experts(text, layers),
        latent=_latent(text),
        window=window,
        window_layers=window_layers,
        dtype=canonical(_text(text, "torch_dtype", "dtype")),
        quantization=_quantization(config.get("quantization_config") or text.get("quantization_config")),
        max_context=_int(text, "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"),
    )


def _int(config: Mapping[str, Any], *names: str) -> int | None:
    found = (value for name in names if type(value := config.get(name)) is int)
    return next((value for value in found if 0 < value <= _LARGEST), None)


def _text(config: Mapping[str, Any], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := config.get(name), str)), None)


def _kv_heads(config: Mapping[str, Any], heads: int) -> int:
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        return 1
    return _int(config, "num_key_value_heads", "num_kv_heads", "n_head_kv") or heads


def _experts(config: Mapping[str, Any], layers: int) -> Experts | None:
    count = _int(config, "n_routed_experts", "num_experts", "num_local_experts")
    if count is None or count == 1:
        return None
    width = _int(config, "moe_intermediate_size", "intermediate_size") or 0
    dense = _int(config, "first_k_dense_replace") or 0
    step = _int(config, "decoder_sparse_step", "moe_layer_freq") or 1
    shared = _int(config, "shared_expert_intermediate_size") or width * (_int(config, "n_shared_experts") or 0)
    return Experts(count, width, (layers - dense) // step, shared)


def _latent(config: Mapping[str, Any]) -> LatentAttention | None:
    kv_rank = _int(config, "kv_lora_rank")
    if kv_rank is None:
        return None
    return LatentAttention(
        kv_rank=kv_rank,
        query_rank=_int(config, "q_lora_rank"),
        nope_dim=_int(config, "qk_nope_head_dim") or 128,
        rope_dim=_int(config, "qk_rope_head_dim") or 64,
        value_dim=_int(config, "v_head_dim") or 128,
    )


def _window(config: Mapping[str, Any], layers: int) -> tuple[int | None, int]:
    """The sliding window in tokens, and the number of its layers; (None, 0) if it is off or these are unknown."""
    window = _int(config, "sliding_window")
    kinds = config.get("layer_types")
    if window is None or config.get("use_sliding_window") is False:
        return None, 0
    if isinstance(kinds, list):
        return window, sum(1 for kind in kinds if kind == "sliding_attention")
    return (window, layers) if config.get("model_type") in ("mistral", "mixtral") else (None, 0)


def _quantization(config: Any) -> str | None:
    if not isinstance(config, dict):
        return None
    method = str(config.get("quant_method", ""))
    if method == "bitsandbytes":
        return "int8" if config.get("load_in_8bit") else "bitsandbytes"
    groups = config.get("config_groups")
    if isinstance(groups, dict):
        weights = next((group.get("weights") for group in groups.values() if isinstance(group, dict)), None)
        if not isinstance(weights, dict):
            return None
        floats = weights.get("type") == "float"
        names = {8: "fp8" if floats else "int8", 4: "fp4" if floats else "int4"}
        return names.get(_int(weights, "num_bits") or 0)
    if config.get("bits") == 8:
        return "int8"
    algorithm = str(config.get("quant_algo", "")).lower()
    return canonical(method) or canonical(algorithm)
