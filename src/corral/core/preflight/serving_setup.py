"""How an inference server spreads a model, in which formats and for which load, by its parameters. Pure."""

from collections.abc import Mapping
from typing import Any

from corral.core.model.serving.parallelism import engine_in, flag_of, is_on, parallel_sizes
from corral.core.model.serving.presets import without_presets
from corral.core.model.units import is_whole
from corral.core.preflight.estimate import InferenceSetup
from corral.core.preflight.precision import canonical

SHORT_CONTEXT = 4096
"""Tokens of a request, if neither the traffic nor the parameters say more."""

_MOST = 10**9
"""The most tokens or requests that are counted: larger numbers are not real, and would overflow."""
_CONTEXT = ("max-model-len", "context-length", "max-seq-len", "max-total-tokens")
_SEQUENCES = ("max-num-seqs", "max-running-requests", "max-batch-size")
_CHUNK = ("max-num-batched-tokens", "chunked-prefill-size", "max-num-tokens")
_FRACTION = ("gpu-memory-utilization", "mem-fraction-static")
_QUANTIZATION = ("quantization", "gemm-dtype")
_CACHE = ("kv-cache-dtype", "kvcache-dtype")
_AUTO = ("auto", "")
_SIXTEEN_OR_MORE = ("float16", "bfloat16", "float32")


def flags(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of parameters by flag without dashes, with the fields of presets. The last of a flag counts."""
    return {flag_of(name): value for name, value in without_presets(parameters).items()}


def serving_setup(
    engine: str, said: Mapping[str, Any], *, context: int | None = None, concurrency: int = 1
) -> InferenceSetup | str:
    """Return the setup by `flags`, for requests of `context` tokens, `concurrency` at a time; or why it is not known.

    The server's own limits bound both. Replicas (dp) share the requests. Raises Refused for an invalid size of
    parallelism.
    """
    sizes, formats = parallel_sizes(said), _formats(said)
    if isinstance(formats, str):
        return formats
    dtype, quantization, cache_dtype = formats
    tp, dp = sizes.get("tp", 1), sizes.get("dp", 1)
    kind = engine_in(engine)
    shared = (kind == "sglang" and is_on(said, "enable-dp-attention")) or is_on(said, "enable-attention-dp")
    longest = _count(said, _CONTEXT)
    asked = context or longest or SHORT_CONTEXT
    sequences = min(-(-concurrency // dp), _count(said, _SEQUENCES) or concurrency)
    return InferenceSetup(
        tensor_parallel=tp,
        pipeline_parallel=sizes.get("pp", 1),
        attention_ranks=max(1, tp // (dp if kind == "sglang" else tp)) if shared else tp,
        expert_ranks=tp * dp if kind == "vllm" else tp,
        cache_ranks=sizes.get("dcp", 1),
        dtype=dtype,
        quantization=quantization,
        cache_dtype=cache_dtype,
        context=min(asked, longest or asked, _MOST),
        batch=min(max(1, sequences), _MOST),
        prefill_tokens=_count(said, _CHUNK),
    )


def memory_fraction(said: Mapping[str, Any]) -> float | None:
    """Return the part of a GPU's memory that the server may take; None if it is not said."""
    value = _given(said, _FRACTION)
    try:
        fraction = float(str(value))
    except ValueError:
        return None
    return fraction if 0 < fraction <= 1 else None


def longest_sequence(said: Mapping[str, Any]) -> int | None:
    """Return the longest sequence in tokens that the server accepts; None if it is not said."""
    return _count(said, _CONTEXT)


def _formats(said: Mapping[str, Any]) -> tuple[str | None, str | None, str | None] | str:
    """Return (dtype, quantization, format of the cache); or a sentence with the first that is not known."""
    found = []
    for names in (("dtype",), _QUANTIZATION, _CACHE):
        value = _given(said, names)
        text = "auto" if value is None else str(value)
        if text not in _AUTO and canonical(text) is None:
            return f"the size of numbers with {names[0]} {text!r:.60} is not known"
        found.append(None if text in _AUTO else text)
    dtype, quantization, cache = found
    if canonical(quantization) in _SIXTEEN_OR_MORE:
        return quantization, None, cache
    return dtype, quantization, cache


def _given(said: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((said[name] for name in names if said.get(name) not in (None, False)), None)


def _count(said: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    value = _given(said, names)
    number = int(value) if isinstance(value, str) and is_whole(value.strip()) else value
    return min(number, _MOST) if type(number) is int and number > 0 else None
