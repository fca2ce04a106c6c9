"""Count the weights of a transformer from its shape. Biases and norms, well under 1 %, are left out."""

from corral.core.preflight.model_config import Experts, LatentAttention, ModelShape


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
