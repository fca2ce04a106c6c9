"""The GPUs and the memory that a candidate of a task needs, for the task's own traffic. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from corral.core.preflight.model_need import ModelNeed, model_need
from corral.core.preflight.model_source import LocalModel
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.model.tuning_spec import BenchmarkSpec, TuningSpec

_SPREAD = 3
"""Standard deviations above the mean, for the longest request of a normal distribution."""
_NUMBERS = r"\(([^()]*)\)"


def candidate_need(
    spec: TuningSpec, engine: InferenceEngine, model: LocalModel | None, parameters: Mapping[str, Any]
) -> ModelNeed:
    """Return the need of a candidate. `model` None: by the model's name. Raises Refused for an invalid size."""
    return model_need(
        spec.model.id_or_path,
        engine.name,
        parameters,
        model=model,
        context=longest_request(spec.benchmark),
        concurrency=max(spec.benchmark.num_concurrency, default=1),
    )


def longest_request(benchmark: BenchmarkSpec) -> int | None:
    """Return the tokens of the longest request with its answer, of all scenarios; None if one does not say its size."""
    sizes = [_tokens(scenario) for scenario in benchmark.traffic_scenarios]
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None


def _tokens(scenario: str) -> int | None:
    """Return the most tokens of a request and its answer: 300 of "D(100,200)", 350 of "U(50,100)/(200,250)"."""
    kind, pairs = scenario.strip()[:1], re.findall(_NUMBERS, scenario)
    try:
        numbers = [[float(number) for number in pair.split(",")] for pair in pairs]
        match kind:
            case "D" | "E" | "R":
                return round(sum(numbers[0]))
            case "N":
                return round(sum(mean + _SPREAD * deviation for mean, deviation in numbers))
            case "U":
                return round(sum(max(bounds) for bounds in numbers))
    except (ValueError, IndexError, OverflowError):
        return None
    return None
