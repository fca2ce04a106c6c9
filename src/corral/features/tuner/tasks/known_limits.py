"""Finds combinations that cannot run before they are tried: by the model's files, and the memory of the site's GPUs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corral.core.model.answers.devices import DeviceRow
from corral.core.model.errors import Refused
from corral.core.model.units import format_memory
from corral.core.preflight.estimate import InferenceSetup, estimate_local
from corral.core.preflight.model_source import LocalModel, find_model
from corral.core.preflight.precision import canonical
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.model.tuning_spec import TuningSpec

WhyNot = Callable[[Mapping[str, Any]], str | None]

_TP, _PP = "tensor-parallel-size", "pipeline-parallel-size"
_EXPERTS_APART, _EXPERT_RANKS = "enable-expert-parallel", "expert-parallel-size"
_AUTO = (None, "auto")


def local_model(config: TuningSpec, env: Mapping[str, str]) -> LocalModel | None:
    """Return the model of a task if its files are on this machine and can be read, None otherwise."""
    try:
        return find_model(config.model.id_or_path, {**env, **config.env}, Path("/"))
    except Refused:
        return None


def why_not(engine: InferenceEngine, model: LocalModel | None, devices: Sequence[DeviceRow]) -> WhyNot:
    """Return a function that returns why a combination cannot run, None if it may run or too little is known."""
    memory_mib = _largest_mib(devices)

    def limit(parameters: Mapping[str, Any]) -> str | None:
        refused = engine.why_not(parameters)
        if refused is not None or model is None:
            return refused
        options = engine.options(parameters)
        return _heads(model, options) or _memory(model, options, memory_mib)

    return limit


def _largest_mib(devices: Sequence[DeviceRow]) -> int | None:
    """Return the memory of the largest GPU in MiB, None if the memory of one is not known."""
    sizes = [device.memory_total_mib for device in devices if device.parent is None]
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None


def _heads(model: LocalModel, options: Mapping[str, Any]) -> str | None:
    ranks, heads = _size(options, _TP), model.shape.heads
    if heads % ranks == 0:
        return None
    return f"the model has {heads} attention heads, which cannot be split evenly over {ranks} GPUs"


def _memory(model: LocalModel, options: Mapping[str, Any], memory_mib: int | None) -> str | None:
    quantization, dtype = options.get("quantization"), options.get("dtype")
    unknown = any(one not in _AUTO and canonical(str(one)) is None for one in (quantization, dtype))
    if memory_mib is None or unknown or _spreads_experts(options):
        return None
    setup = InferenceSetup(
        tensor_parallel=_size(options, _TP),
        pipeline_parallel=_size(options, _PP),
        dtype=None if dtype in _AUTO else str(dtype),
        quantization=None if quantization in _AUTO else str(quantization),
    )
    # Only the weights count: the working memory depends on tuned settings.
    need_mib = estimate_local(model, setup).weights_mib
    if need_mib <= memory_mib:
        return None
    short = format_memory(need_mib - memory_mib)
    return (
        f"the model's weights take {format_memory(need_mib)} of each GPU, {short} more than the largest has "
        f"({format_memory(memory_mib)}); spread it over more"
    )


def _spreads_experts(options: Mapping[str, Any]) -> bool:
    return bool(options.get(_EXPERTS_APART)) or _size(options, _EXPERT_RANKS) > 1


def _size(options: Mapping[str, Any], flag: str) -> int:
    value = options.get(flag, 1)
    return value if type(value) is int and value > 0 else 1
