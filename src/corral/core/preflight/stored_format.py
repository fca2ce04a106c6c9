"""How a quantised model stores its weights, from the part of its config for that."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from corral.core.preflight.model_shape import ModelShape, Stored
from corral.core.preflight.plain_config import PlainConfig, number_in
from corral.core.preflight.precision import BYTES_PER_WEIGHT, canonical

_LEFT_OUT = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "modules_to_not_quantize")
_ENCODERS = re.compile(r"vis|audio|mm_|projector|tower")
_PARTS = {
    "attention": re.compile(r"attn|attention"),
    "shared_experts": re.compile(r"shared_expert(?!_gate)"),
    "experts": re.compile(r"(?<!shared_)experts"),
    "feed_forward": re.compile(r"(mlp|feed_forward|ffn)(\W*$|.*(gate_up|up_proj|down_proj|gate_proj))"),
}
_LAYER = re.compile(r"layers?\W+(\d{1,4})\b")
_MOST_NAMES = 100_000
_MXFP4_BYTES = 0.53125
"""Four bits, with an 8-bit scale per 32 weights."""


def stored_format(config: Any, layers: int) -> tuple[str | None, Stored | None]:
    """Return the name of a quantisation, and how its weights are stored; (None, None) if it is none, or not known."""
    if not isinstance(config, dict):
        return None, None
    scheme = _scheme(config)
    name = _name(config, scheme)
    if name is None:
        return None, None
    left_out = list(_left_out(config))
    predictors = 1.0 if any(_is_beyond(module, layers) for module in left_out) else 0.0
    return name, Stored(_bytes_per_weight(name, scheme), **_kept(left_out, layers), predictors=predictors)


def usual_storage(shape: ModelShape, name: str) -> Stored:
    """Return how models of this shape are usually stored in a format.

    In FP4, models with experts, with compressed or linear attention keep their attention and predictors in 16 bits.
    """
    mixed = name == "fp4" and (shape.experts or shape.latent or shape.linear)
    return in_mixed_precision(name) if mixed else Stored(BYTES_PER_WEIGHT[name])


def in_mixed_precision(name: str) -> Stored:
    """Return the storage in a format with attention and predictors in 16 bits."""
    return Stored(BYTES_PER_WEIGHT[name], attention=1.0, predictors=1.0)


def _scheme(config: PlainConfig) -> PlainConfig:
    """The entries for weights: those of the first group if there are groups."""
    groups = config.get("config_groups")
    if not isinstance(groups, dict):
        return config
    weights = [group.get("weights") for group in groups.values() if isinstance(group, dict)]
    return next((one for one in weights if isinstance(one, dict)), {})


def _name(config: PlainConfig, scheme: PlainConfig) -> str | None:
    method = str(config.get("quant_method", ""))
    if method == "bitsandbytes":
        return "int8" if config.get("load_in_8bit") else "bitsandbytes"
    if "config_groups" in config:
        floats = scheme.get("type") == "float"
        return {8: "fp8" if floats else "int8", 4: "fp4" if floats else "int4"}.get(number_in(scheme, "num_bits") or 0)
    if config.get("bits") == 8:
        return "int8"
    return canonical(method) or canonical(str(config.get("quant_algo", "")))


def _bytes_per_weight(name: str, scheme: PlainConfig) -> float:
    """The bytes of a weight with its part of its group's 16-bit scale, and of a zero point of its own width."""
    if scheme.get("quant_method") == "mxfp4":
        return _MXFP4_BYTES
    usual = BYTES_PER_WEIGHT[name]
    bits = number_in(scheme, "bits", "num_bits", "w_bit")
    if name not in ("awq", "gptq", "int4", "int8") or bits is None or bits > 8:
        return usual
    group = number_in(scheme, "group_size", "q_group_size")
    return bits / 8 + ((2 + bits / 8) / group if group else 0.0)


def _left_out(config: PlainConfig) -> Iterable[str]:
    for name in _LEFT_OUT:
        listed = config.get(name)
        if isinstance(listed, list):
            yield from (one.lower()[:200] for one in listed[:_MOST_NAMES] if isinstance(one, str))


def _is_beyond(module: str, layers: int) -> bool:
    """Whether a module is of the layers behind the last one, which predict further tokens."""
    layer = _LAYER.search(module)
    return "mtp" in module if layer is None else int(layer[1]) >= layers


def _kept(modules: Iterable[str], layers: int) -> Mapping[str, float]:
    """The part of each kind of module that is not quantised: all of it, or that of the layers that are named."""
    named: dict[str, set[str]] = {part: set() for part in _PARTS}
    for module in modules:
        part = next((part for part, form in _PARTS.items() if form.search(module)), None)
        if part is None or _ENCODERS.search(module):
            continue
        layer = _LAYER.search(module)
        named[part].add(layer[1] if layer else "all")
    return {part: 1.0 if "all" in found else min(1.0, len(found) / layers) for part, found in named.items()}
