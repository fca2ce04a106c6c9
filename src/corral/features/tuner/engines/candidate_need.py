"""The GPUs that a candidate needs. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from corral.core.model.serving.parallelism import world_size
from corral.core.preflight.model_source import LocalModel
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.model.tuning_spec import TuningSpec


class CandidateNeed(NamedTuple):
    """The number of GPUs, and the memory in MiB that each needs, at best and at least; None if it is not known."""

    gpus: int
    min_memory_mib: int | None
    floor_mib: int | None


def candidate_need(
    spec: TuningSpec, engine: InferenceEngine, model: LocalModel | None, parameters: Mapping[str, Any]
) -> CandidateNeed:
    """Return the need of a candidate. Raises Refused for an invalid size of parallelism."""
    return CandidateNeed(world_size(engine.name, parameters), None, None)
