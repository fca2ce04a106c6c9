"""Estimate how much memory of each device a model needs: weights, key-value cache, activations, overhead.

Weights are counted, or measured if their files are present. The cache is exact for the shape. Activations and overhead
are rules of thumb: see `_activation_bytes` and the constants. A model about which too little is known has no estimate.
"""

from dataclasses import dataclass, replace

from corral.core.model.errors import Refused
from corral.core.model.units import is_whole
from corral.core.preflight.known_models import known_shape
from corral.core.preflight.model_name import (
    LEAST_OF_NAME,
    MOST_OF_NAME,
    billions_in,
    format_in,
    other_format_in,
    typical_shape,
)
from corral.core.preflight.model_shape import ModelShape, Stored
from corral.core.preflight.model_source import LocalModel
from corral.core.preflight.precision import BYTES_PER_WEIGHT, canonical
from corral.core.preflight.stored_format import in_mixed_precision, usual_storage
from corral.core.preflight.weights import UNCOUNTED, Ranks, device_bytes

_MIB = 1024 * 1024
CONTEXT_OVERHEAD_MIB = 1024
"""CUDA context, loaded kernels, libraries' workspaces and fragmentation, per device."""
COMMUNICATION_OVERHEAD_MIB = 512
"""NCCL's buffers on each device, if there are several devices."""
PREFILL_TOKENS = 8192
"""The most tokens that a server computes at once by default; longer prompts are split into chunks."""
_DEFAULT_CONTEXT = 4096
_STATE_BYTES = 4
"""Linear attention keeps its state in 32 bits."""
_LEAST_OF_SHAPE = 0.95
"""The least weights, as a part of those that are counted: servers split some parts further."""


@dataclass(frozen=True, slots=True)
class InferenceSetup:
    """The setup of a model. `context` None is the model's maximum, `dtype` None that of its weights.

    Attributes:
        attention_ranks, expert_ranks: the devices over which attention and experts are split, if not over
            `tensor_parallel`.
        cache_ranks: the devices over which the tokens of a cache are split.
        prefill_tokens: the most tokens that the server computes at once; None: `PREFILL_TOKENS`.
    """

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    dtype: str | None = None
    quantization: str | None = None
    cache_dtype: str | None = None
    context: int | None = None
    batch: int = 1
    attention_ranks: int | None = None
    expert_ranks: int | None = None
    cache_ranks: int = 1
    prefill_tokens: int | None = None

    @property
    def world_size(self) -> int:
        """The total number of devices of one replica."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def spread(self) -> Ranks:
        """The devices over which the parts of a layer are split."""
        tensor = self.tensor_parallel
        return Ranks(self.attention_ranks or tensor, tensor, self.expert_ranks or tensor, self.pipeline_parallel)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated MiB on each device, and where the figures come from (`source`). The cache is for `batch` contexts.

    `least_weights_mib` is the least that the weights take, as far off as the estimate may be. `cache_per_token_mib` is
    for one sequence on one device.
    """

    weights_mib: int
    cache_mib: int
    activations_mib: int
    overhead_mib: int
    source: str
    context: int
    batch: int
    least_weights_mib: int
    cache_per_token_mib: float

    @property
    def need_mib(self) -> int:
        """The MiB that it needs to start: everything but the cache."""
        return self.weights_mib + self.activations_mib + self.overhead_mib

    @property
    def total_mib(self) -> int:
        """The MiB for the whole requested context and batch."""
        return self.need_mib + self.cache_mib

    def fitting_context(self, granted_mib: int) -> int | None:
        """The longest context, in multiples of 1024 tokens, that fits with the same batch; None if none does."""
        if not self.cache_per_token_mib or granted_mib <= self.need_mib:
            return None
        tokens = int((granted_mib - self.need_mib) / (self.cache_per_token_mib * self.batch))
        return min(self.context, tokens // 1024 * 1024) or None


@dataclass(frozen=True, slots=True)
class _Format:
    """How a server has the weights: as `stored`, and with `plain` bytes where they are not quantised.

    `known`: whether the model's config says how they are stored.
    """

    name: str
    stored: Stored
    plain: float
    known: bool = True

    def bytes_of(self, shape: ModelShape, spread: Ranks) -> float:
        """The bytes on the fullest device."""
        return device_bytes(shape, self.stored, self.plain, spread)

    @property
    def least(self) -> "_Format":
        """The format in which all weights may be quantised if it is not known which are."""
        return self if self.known else replace(self, stored=Stored(self.stored.bytes_per_weight))


def estimate_local(model: LocalModel, setup: InferenceSetup) -> Estimate:
    """The estimate for a model whose files are on this machine."""
    shape, source = model.shape, f"{model.path}/config.json"
    wanted, stored = _format(shape, setup), _format(shape, InferenceSetup())
    if model.weight_bytes is None or wanted.stored != stored.stored:
        return _estimate(shape, wanted, setup, source)
    measured = model.weight_bytes / stored.bytes_of(shape, Ranks())
    return _estimate(shape, wanted, setup, f"{source} and the size of its weight files", measured)


def estimate_named(name: str, setup: InferenceSetup) -> Estimate | str:
    """The estimate from a model's name: that of a known model, else by the number of parameters in the name.

    A sentence says why there is none, if the name tells neither.
    """
    other, said = other_format_in(name), format_in(name)
    if other is not None:
        return f"the size of weights in {other:.20} is not known here"
    shape = known_shape(name)
    if shape is not None:
        # Others may have quantised more of the model.
        wanted = replace(_format(shape if said is None else _in_format(shape, said), setup), known=False)
        return _estimate(shape, wanted, setup, f"the known size of a model of this name, at {wanted.name}")
    billions = billions_in(name)
    if isinstance(billions, str):
        return billions
    shape = _in_format(typical_shape(billions * MOST_OF_NAME / UNCOUNTED), said or "float16")
    if said == "fp4":
        shape = replace(shape, stored=in_mixed_precision(said))
    wanted = _format(shape, setup)
    source = f"{billions:g} billion parameters in the name, at {wanted.name}, in the shape of a common model"
    found = _estimate(shape, wanted, setup, source)
    ranks = max(setup.tensor_parallel, setup.expert_ranks or 1) * setup.pipeline_parallel
    least = billions * LEAST_OF_NAME * 1e9 * wanted.stored.bytes_per_weight / ranks
    return replace(found, least_weights_mib=min(_mib(least), found.least_weights_mib))


def parse_context(text: str) -> int:
    """Tokens of a context length: "32768" or "32k" (1024 each). Raises Refused for anything else."""
    digits = text.strip().lower().removesuffix("k")
    if not is_whole(digits) or int(digits) == 0:
        raise Refused(
            f"--context: {text!r:.60} is not a number of tokens; write one such as 8192 or 32k", field="--context"
        )
    return int(digits) * (1024 if text.strip().lower().endswith("k") else 1)


def _in_format(shape: ModelShape, name: str) -> ModelShape:
    """The shape of the same model stored in this format."""
    if name == shape.quantization:
        return shape
    if name in ("float16", "bfloat16", "float32"):
        return replace(shape, dtype=name, quantization=None, stored=None)
    return replace(shape, quantization=name, stored=None)


def _format(shape: ModelShape, setup: InferenceSetup) -> _Format:
    """How the server has the weights. A quantised model stays as it is stored, whatever is asked for."""
    dtype = canonical(setup.dtype) or shape.dtype or "float16"
    plain = BYTES_PER_WEIGHT[dtype]
    name = shape.quantization or canonical(setup.quantization)
    if name is None:
        return _Format(dtype, Stored(plain), plain)
    stored = shape.stored if shape.quantization else None
    return _Format(name, stored or usual_storage(shape, name), plain, known=stored is not None)


def _estimate(
    shape: ModelShape, wanted: _Format, setup: InferenceSetup, source: str, measured: float = 1.0
) -> Estimate:
    """The estimate by shape. `measured` is the size of the weights in proportion to those that are counted."""
    context = setup.context or shape.max_context or _DEFAULT_CONTEXT
    bare = replace(shape, encoders=0, predictors=0)
    sequence_bytes = _sequence_bytes(shape, setup, context)
    return Estimate(
        weights_mib=_mib(measured * wanted.bytes_of(shape, setup.spread)),
        cache_mib=_mib(sequence_bytes * setup.batch),
        activations_mib=_mib(_activation_bytes(shape, setup, context)),
        overhead_mib=CONTEXT_OVERHEAD_MIB + (COMMUNICATION_OVERHEAD_MIB if setup.world_size > 1 else 0),
        source=source,
        context=context,
        batch=setup.batch,
        least_weights_mib=_mib(_LEAST_OF_SHAPE * min(measured, 1.0) * wanted.least.bytes_of(bare, setup.spread)),
        cache_per_token_mib=sequence_bytes / context / _MIB,
    )


def _sequence_bytes(shape: ModelShape, setup: InferenceSetup, context: int) -> float:
    """The bytes that one sequence keeps on the fullest device: keys and values by token, and states."""
    width = BYTES_PER_WEIGHT[canonical(setup.cache_dtype) or "float16"]
    ranks = setup.spread.attention
    stage = -(-shape.layers // setup.pipeline_parallel)
    linear = stage * shape.linear.layers // shape.layers if shape.linear else 0
    sliding, kept = 0, context
    if shape.window is not None:
        # The fewest that a stage may have of them.
        sliding, kept = stage * shape.window.layers // shape.layers, min(context, shape.window.tokens)
    tokens = max(0, stage - linear - sliding) * context + sliding * kept
    cache = cache_elements_per_token(shape, ranks) * width * tokens / setup.cache_ranks
    if shape.linear is None:
        return cache
    state = shape.linear.value_heads * shape.linear.value_dim * shape.linear.key_dim * _STATE_BYTES
    return cache + linear * state / ranks


def _activation_bytes(shape: ModelShape, setup: InferenceSetup, context: int) -> float:
    """The peak bytes of one step.

    Per token: six vectors of hidden width and two of feed-forward width, in 16 bits. Per batch: the logits in 32 bits.
    """
    tokens = min(setup.prefill_tokens or PREFILL_TOKENS, context * setup.batch)
    width = shape.intermediate if shape.experts is None else max(shape.experts.width, shape.experts.shared_width)
    per_token = 2 * (6 * shape.hidden + 2 * width / setup.tensor_parallel)
    return tokens * per_token + setup.batch * shape.vocab * 4 / setup.tensor_parallel


def cache_elements_per_token(shape: ModelShape, tensor_parallel: int) -> int:
    """The elements of the key-value cache that one layer keeps per token on each device.

    Heads are spread over the devices. If there are fewer heads than devices, heads are repeated; so is a compressed
    cache.
    """
    if shape.latent is not None:
        return shape.latent.kv_rank + shape.latent.rope_dim
    return 2 * -(-shape.kv_heads // tensor_parallel) * shape.head_dim


def _mib(size: float) -> int:
    return -int(-size // _MIB)
