"""The GPUs that a model needs with the parameters of its server, and the memory of each. Corral decides by this alone.

What cannot be known is None, and the reason is told.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from corral.core.model.serving.parallelism import engine_in, world_size
from corral.core.model.units import format_memory
from corral.core.preflight.estimate import Estimate, InferenceSetup, estimate_local, estimate_named
from corral.core.preflight.model_source import LocalModel
from corral.core.preflight.serving_setup import flags, longest_sequence, memory_fraction, serving_setup

_USUAL_FRACTION = {"vllm": 0.92}
"""The part of a GPU's memory that a server takes unless it is told otherwise, by engine. Others decide by the model."""


@dataclass(frozen=True, slots=True)
class ModelNeed:
    """The GPUs that a server needs, and the MiB that each must have in total; None if that is not known.

    Attributes:
        min_memory_mib: enough for weights, activations, overhead, and the cache of the expected requests.
        floor_mib: no GPU with less can hold the weights, as far off as the estimate may be.
        source: where the figures come from, or why they are not known.
        estimate: what they consist of.
    """

    gpus: int
    min_memory_mib: int | None
    floor_mib: int | None
    source: str
    estimate: Estimate | None = None

    def why_not_on(self, memory_mib: int | None) -> str | None:
        """Return why a GPU with this memory in total cannot hold the model; None if it may, or too little is known."""
        if self.floor_mib is None or memory_mib is None or memory_mib >= self.floor_mib:
            return None
        needed, there = format_memory(self.floor_mib), format_memory(memory_mib)
        short = format_memory(self.floor_mib - memory_mib)
        return f"the model's weights alone need a GPU with {needed}: {there} are {short} too few; use more GPUs"


def model_need(
    name: str,
    engine: str,
    parameters: Mapping[str, Any],
    *,
    model: LocalModel | None = None,
    context: int | None = None,
    concurrency: int = 1,
) -> ModelNeed:
    """Return the need of a model, by its files (`model`), else by its name.

    `engine` may be the name of an image or of a runtime. `context` is the number of tokens of a request with its
    answer; None: as many as the server accepts by its parameters, or few. Raises Refused for an invalid size of
    parallelism.
    """
    said = flags(parameters)
    gpus = world_size(engine, said)
    setup = serving_setup(engine, said, context=context, concurrency=concurrency)
    found = setup if isinstance(setup, str) else _estimate(name, engine, said, model, setup)
    if isinstance(found, str):
        return ModelNeed(gpus, None, None, found)
    fraction = memory_fraction(said) or _USUAL_FRACTION.get(engine_in(engine) or "", 1.0)
    return ModelNeed(
        gpus,
        min_memory_mib=math.ceil(found.total_mib / fraction),
        floor_mib=math.ceil(found.least_weights_mib / fraction),
        source=found.source,
        estimate=found,
    )


def _estimate(
    name: str, engine: str, said: Mapping[str, Any], model: LocalModel | None, setup: InferenceSetup
) -> Estimate | str:
    """The estimate for the expected requests; for vLLM at least for the longest sequence that it accepts.

    vLLM does not start if its cache cannot hold that sequence.
    """
    found = _of(name, model, setup)
    longest = longest_sequence(said) or (model.shape.max_context if model else None)
    if isinstance(found, str) or engine_in(engine) != "vllm" or longest is None:
        return found
    single = _of(name, model, replace(setup, context=longest, batch=1))
    return found if isinstance(single, str) or single.cache_mib <= found.cache_mib else single


# A search asks for many combinations, and few of their parameters count here.
@lru_cache(maxsize=1024)
def _of(name: str, model: LocalModel | None, setup: InferenceSetup) -> Estimate | str:
    return estimate_local(model, setup) if model else estimate_named(name, setup)
