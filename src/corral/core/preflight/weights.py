"""The weights of a model by its shape: their number, and the bytes on the fullest device. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from corral.core.preflight.model_shape import Experts, LatentAttention, LinearAttention, ModelShape, Stored

UNCOUNTED = 1.01
"""Norms, biases, scales of whole tensors and small tables: less than 1 % of the weights, and in no config."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Over how many devices a layer's parts are split, and the layers over stages.

    Attributes:
        feed_forward: for shared experts too.
    """

    attention: int = 1
    feed_forward: int = 1
    experts: int = 1
    stages: int = 1


def all_weights(shape: ModelShape) -> int:
    """The weights of the whole model, as its files have them."""
    layers = sum(_layer_parts(shape, Ranks()).values()) + _predicting(shape, Ranks())
    return layers + (1 + shape.predictors) * table_weights(shape) + shape.encoders


def layer_weights(shape: ModelShape) -> int:
    """The weights of all layers together."""
    return sum(_layer_parts(shape, Ranks()).values())


def table_weights(shape: ModelShape) -> int:
    """The weights of the tables from tokens to vectors and back. A quantised model keeps them in 16 bits."""
    tables = 1 if shape.tied else 2
    return tables * shape.vocab * shape.hidden + shape.positions * shape.hidden


def device_bytes(shape: ModelShape, stored: Stored, plain: float, spread: Ranks) -> float:
    """The bytes of the weights on the fullest device.

    `plain` is the bytes of a weight that is not quantised. Tables and encoders have at least two. Each stage has whole
    layers, and the first one the encoders, whole on each device.
    """
    kept = {
        "attention": stored.attention,
        "feed_forward": stored.feed_forward,
        "shared_experts": stored.shared_experts,
        "experts": stored.experts,
    }
    parts = _layer_parts(shape, spread)
    layers = sum(weights * _mean_bytes(stored, kept[part], plain) for part, weights in parts.items())
    stage = -(-shape.layers // spread.stages) / shape.layers
    wide = max(2.0, plain)
    tables = (1 + shape.predictors) * table_weights(shape) * wide / spread.feed_forward
    if spread.stages > 1 and not shape.tied:
        tables *= 0.5
    predicting = _predicting(shape, spread) * _mean_bytes(stored, stored.predictors, plain)
    return UNCOUNTED * (layers * stage + predicting + tables + shape.encoders * wide)


def _mean_bytes(stored: Stored, kept: float, plain: float) -> float:
    """The bytes of a weight if this part of the weights is not quantised."""
    return kept * plain + (1 - kept) * stored.bytes_per_weight


def _layer_parts(shape: ModelShape, spread: Ranks) -> Mapping[str, int]:
    """The weights of all layers by part, as far as one device of each stage has them."""
    linear_layers = shape.linear.layers if shape.linear else 0
    sparse_layers = shape.experts.layers if shape.experts else 0
    attention = (shape.layers - linear_layers) * _attention(shape, spread.attention)
    if shape.linear:
        attention += linear_layers * _linear_attention(shape, shape.linear, spread.attention)
    dense = (shape.layers - sparse_layers) * _feed_forward(shape, shape.intermediate)
    parts = {"attention": attention, "feed_forward": -(-dense // spread.feed_forward)}
    if shape.experts:
        shared = _shared(shape, shape.experts, spread)
        parts |= {"shared_experts": sparse_layers * shared}
        parts |= {"experts": sparse_layers * _routed(shape, shape.experts, spread)}
    return parts


def _predicting(shape: ModelShape, spread: Ranks) -> int:
    """The weights of the layers that predict further tokens: each a layer like the last, behind a projection."""
    if not shape.predictors:
        return 0
    if shape.experts:
        feed_forward = _shared(shape, shape.experts, spread) + _routed(shape, shape.experts, spread)
    else:
        feed_forward = -(-_feed_forward(shape, shape.intermediate) // spread.feed_forward)
    return shape.predictors * (_attention(shape, spread.attention) + feed_forward + 2 * shape.hidden**2)


def _shared(shape: ModelShape, experts: Experts, spread: Ranks) -> int:
    """Experts that are always active, and the router, which each device has whole."""
    return -(-_feed_forward(shape, experts.shared_width) // spread.feed_forward) + shape.hidden * experts.count


def _routed(shape: ModelShape, experts: Experts, spread: Ranks) -> int:
    return -(-experts.count * _feed_forward(shape, experts.width) // spread.experts)


def _feed_forward(shape: ModelShape, width: int) -> int:
    return (3 if shape.gated else 2) * shape.hidden * width


def _attention(shape: ModelShape, ranks: int) -> int:
    """Heads are split over the devices; if there are fewer heads of keys than devices, these are repeated."""
    if shape.latent is not None:
        return _latent_attention(shape, shape.latent, ranks)
    queries = shape.hidden * shape.heads * shape.head_dim
    keys_values = 2 * shape.hidden * -(-shape.kv_heads // ranks) * shape.head_dim
    return -(-(3 if shape.linear else 2) * queries // ranks) + keys_values


def _latent_attention(shape: ModelShape, latent: LatentAttention, ranks: int) -> int:
    """The projections into the compressed vectors are whole on each device."""
    query_out = shape.heads * (latent.nope_dim + latent.rope_dim)
    down = shape.hidden * (latent.kv_rank + latent.rope_dim + (latent.query_rank or 0))
    up = (latent.query_rank or shape.hidden) * query_out
    up += latent.kv_rank * shape.heads * (latent.nope_dim + latent.value_dim)
    return down + -(-(up + shape.heads * latent.value_dim * shape.hidden) // ranks)


def _linear_attention(shape: ModelShape, linear: LinearAttention, ranks: int) -> int:
    keys, values = linear.key_heads * linear.key_dim, linear.value_heads * linear.value_dim
    return -(-shape.hidden * (2 * keys + 3 * values + 2 * linear.value_heads) // ranks)
