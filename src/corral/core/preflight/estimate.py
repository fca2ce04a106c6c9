"""Estimate how much memory of each device a model needs: weights, key-value cache, activations, overhead.

Weights are counted, or measured if their files are present. The cache is exact for the shape. Activations and overhead
are rules of thumb: see `_activation_bytes` and the constants.
"""

from dataclasses import dataclass

from corral.core.model.errors import Refused
from corral.core.model.units import is_whole
from corral.core.preflight.model_config import Experts, LatentAttention, ModelShape
from corral.core.preflight.model_name import billions_in, quantization_in, typical_shape
from corral.core.preflight.model_source import LocalModel
from corral.core.preflight.precision import BYTES_PER_WEIGHT, canonical

_MIB = 1024 * 1024
CONTEXT_OVERHEAD_MIB = 1024
"""CUDA context, loaded kernels, libraries' workspaces and fragmentation, per device."""
COMMUNICATION_OVERHEAD_MIB = 512
"""NCCL's buffers on each device, if there are several devices."""
PREFILL_TOKENS = 8192
"""The most tokens that a server computes at once; longer prompts are split into chunks."""
UNKNOWN_MODEL_MIB = 8000
"""MiB per device for a model about which nothing is known."""
_DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class InferenceSetup:
    """The setup of a model. `context` None is the model's maximum, `dtype` None that of its weights."""

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    dtype: str | None = None
    quantization: str | None = None
    cache_dtype: str | None = None
    context: int | None = None
    batch: int = 1

    @property
    def world_size(self) -> int:
        """The total number of devices."""
        return self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated MiB on each device, and where the figures come from (`source`). The cache is for `batch` contexts.

    `cache_per_token_mib` is for one sequence on one device; 0 if nothing is known about the model.
    """

    weights_mib: int
    cache_mib: int
    activations_mib: int
    overhead_mib: int
    source: str
    context: int
    batch: int
    cache_per_token_mib: float = 0.0

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


def estimate_local(model: LocalModel, load: InferenceSetup) -> Estimate:
    """The estimate for a model whose files are on this machine."""
    shape = model.shape
    stored = shape.quantization or shape.dtype or "float16"
    asked = _quantization(load, shape.quantization) or canonical(load.dtype) or stored
    source = f"{model.path}/config.json"
    if model.weight_bytes is not None and (shape.quantization or BYTES_PER_WEIGHT[asked] == BYTES_PER_WEIGHT[stored]):
        source += " and the size of its weight files"
        weight_bytes = model.weight_bytes / load.world_size
    else:
        weight_bytes = _weight_bytes(shape, asked, load)
    return _estimate(shape, weight_bytes, load, source)


def estimate_named(name: str, load: InferenceSetup) -> Estimate:
    """The estimate from a model's name: by the number of parameters in it, or for a small model if there is none."""
    billions = billions_in(name)
    if not billions:
        source = f"nothing: {name} is not here and its name states no size, so a small model is assumed"
        return Estimate(UNKNOWN_MODEL_MIB, 0, 0, 0, source, load.context or _DEFAULT_CONTEXT, load.batch)
    asked = _quantization(load, canonical(quantization_in(name))) or canonical(load.dtype) or "float16"
    weight_bytes = billions * 1e9 * BYTES_PER_WEIGHT[asked] / load.world_size
    source = (
        f"{billions:g} billion parameters in the name, at {asked}; cache and activations of a common model of that size"
    )
    return _estimate(typical_shape(billions), weight_bytes, load, source)


def parse_context(text: str) -> int:
    """Tokens of a context length: "32768" or "32k" (1024 each). Raises Refused for anything else."""
    digits = text.strip().lower().removesuffix("k")
    if not is_whole(digits) or int(digits) == 0:
        raise Refused(
            f"--context: {text!r:.60} is not a number of tokens; write one such as 8192 or 32k", field="--context"
        )
    return int(digits) * (1024 if text.strip().lower().endswith("k") else 1)


def _quantization(load: InferenceSetup, stored: str | None) -> str | None:
    return stored or canonical(load.quantization)


def _weight_bytes(shape: ModelShape, asked: str, load: InferenceSetup) -> float:
    """Bytes on the fullest device: its part of the layers, and of the embeddings, which stay at 16 bits or more."""
    stage = -(-shape.layers // load.pipeline_parallel) / shape.layers
    per_weight = BYTES_PER_WEIGHT[asked]
    embeddings = embedding_weights(shape) * max(2.0, per_weight)
    return (layer_weights(shape) * stage * per_weight + embeddings) / load.tensor_parallel


def _estimate(shape: ModelShape, weight_bytes: float, load: InferenceSetup, source: str) -> Estimate:
    context = load.context or shape.max_context or _DEFAULT_CONTEXT
    cache_width = BYTES_PER_WEIGHT[canonical(load.cache_dtype) or "float16"]
    element_bytes = cache_elements_per_token(shape, load.tensor_parallel) * cache_width
    stage_layers = -(-shape.layers // load.pipeline_parallel)
    sliding = stage_layers * shape.window_layers // shape.layers
    remembered = min(context, shape.window or context)
    sequence_bytes = element_bytes * ((stage_layers - sliding) * context + sliding * remembered)
    overhead = CONTEXT_OVERHEAD_MIB + (COMMUNICATION_OVERHEAD_MIB if load.world_size > 1 else 0)
    return Estimate(
        weights_mib=_mib(weight_bytes),
        cache_mib=_mib(sequence_bytes * load.batch),
        activations_mib=_mib(_activation_bytes(shape, load, context)),
        overhead_mib=overhead,
        source=source,
        context=context,
        batch=load.batch,
        cache_per_token_mib=sequence_bytes / context / _MIB,
    )


def _activation_bytes(shape: ModelShape, load: InferenceSetup, context: int) -> float:
    """The peak bytes of one step.

    Per token: six vectors of hidden width and two of feed-forward width, in 16 bits. Per batch: the logits in 32 bits.
    """
    tokens = min(PREFILL_TOKENS, context * load.batch)
    width = shape.intermediate if shape.experts is None else max(shape.experts.width, shape.experts.shared_width)
    per_token = 2 * (6 * shape.hidden + 2 * width / load.tensor_parallel)
    return tokens * per_token + load.batch * shape.vocab * 4 / load.tensor_parallel


def _mib(size: float) -> int:
    return -int(-size // _MIB)


def embedding_weights(shape: ModelShape) -> int:
    """The weights of the tables from tokens to vectors and back. A quantised model keeps them in 16 bits."""
    tables = 1 if shape.tied else 2
    return tables * shape.vocab * shape.hidden + shape.positions * shape.hidden


def layer_weights(shape: ModelShape) -> int:
    """The weights of all layers together."""
    dense_layers = shape.layers - (shape.experts.layers if shape.experts else 0)
    weights = shape.layers * _attention(shape) + dense_layers * _feed_forward(shape, shape.intermediate)
    if shape.experts:
        weights += shape.experts.layers * _mixture(shape, shape.experts)
    return weights


def cache_elements_per_token(shape: ModelShape, tensor_parallel: int) -> int:
    """The elements of the key-value cache that one layer keeps per token on each device.

    Heads are spread over the devices. If there are fewer heads than devices, heads are repeated; so is a compressed
    cache.
    """
    if shape.latent is not None:
        return shape.latent.kv_rank + shape.latent.rope_dim
    return 2 * -(-shape.kv_heads // tensor_parallel) * shape.head_dim


def _attention(shape: ModelShape) -> int:
    if shape.latent is not None:
        return _latent_attention(shape, shape.latent)
    queries = shape.hidden * shape.heads * shape.head_dim
    keys_values = 2 * shape.hidden * shape.kv_heads * shape.head_dim
    return 2 * queries + keys_values


def _latent_attention(shape: ModelShape, latent: LatentAttention) -> int:
    query_out = shape.heads * (latent.nope_dim + latent.rope_dim)
    rank = latent.query_rank
    queries = shape.hidden * query_out if rank is None else rank * (shape.hidden + query_out)
    down = shape.hidden * (latent.kv_rank + latent.rope_dim)
    up = latent.kv_rank * shape.heads * (latent.nope_dim + latent.value_dim)
    return queries + down + up + shape.heads * latent.value_dim * shape.hidden


def _feed_forward(shape: ModelShape, width: int) -> int:
    return (3 if shape.gated else 2) * shape.hidden * width


def _mixture(shape: ModelShape, experts: Experts) -> int:
    router = shape.hidden * experts.count
    return experts.count * _feed_forward(shape, experts.width) + _feed_forward(shape, experts.shared_width) + router
