"""The shape of a transformer: all that its memory depends on."""

from dataclasses import dataclass


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
class LinearAttention:
    """Attention of `layers` layers that keeps a state per sequence in place of a cache per token (gated delta rule).

    The other layers have a gate for what attention puts out.
    """

    layers: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """`layers` layers keep at most `tokens` tokens in their cache."""

    tokens: int
    layers: int


@dataclass(frozen=True, slots=True)
class Stored:
    """How a quantised model stores its weights: bytes for each, and the parts that are not quantised, from 0 to 1.

    `predictors` are the layers that predict further tokens.
    """

    bytes_per_weight: float
    attention: float = 0.0
    feed_forward: float = 0.0
    shared_experts: float = 0.0
    experts: float = 0.0
    predictors: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers that determine a model's memory. Widths are in elements.

    Attributes:
        encoders: the weights for images and sound, with the projection into text; they stay at 16 bits.
        predictors: further layers that predict more than one token.
        stored: None if the weights are not quantised, or as usual for `quantization`.
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
    linear: LinearAttention | None = None
    window: SlidingWindow | None = None
    encoders: int = 0
    predictors: int = 0
    dtype: str | None = None
    quantization: str | None = None
    stored: Stored | None = None
    max_context: int | None = None
