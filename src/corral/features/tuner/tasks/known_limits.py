"""Finds combinations that cannot run before they are tried: by the model, and the memory of the GPUs to be had."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.serving.parallelism import parallel_sizes
from corral.core.model.units import count_of
from corral.core.preflight.model_source import LocalModel, find_model
from corral.features.tuner.engines.candidate_need import candidate_need
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.search.problem import Problem

TOLD = 5
"""The most combinations that cannot run in a task's log."""

WhyNot = Callable[[Mapping[str, Any]], str | None]


def local_model(config: TuningSpec, env: Mapping[str, str]) -> LocalModel | None:
    """Return the model of a task if its files are on this machine and can be read, None otherwise."""
    try:
        return find_model(config.model.id_or_path, {**env, **config.env}, Path("/"))
    except Refused:
        return None


def why_not(spec: TuningSpec, engine: InferenceEngine, model: LocalModel | None, memory_mib: int | None) -> WhyNot:
    """Return a function that returns why a combination cannot run, None if it may run or too little is known.

    `memory_mib` is the memory of the largest GPU that the task can get, None if it is not known; `model` None: the
    model is known by its name alone.
    """

    def limit(parameters: Mapping[str, Any]) -> str | None:
        try:
            return (
                engine.why_not(parameters)
                or _heads(model, parameters)
                or candidate_need(spec, engine, model, parameters).why_not_on(memory_mib)
            )
        except Refused as refused:
            return str(refused)

    return limit


def left_out(problem: Problem) -> Iterator[str]:
    """Yield a line for each combination that is not tried because it cannot run; for the first ones and a count."""
    reasons = problem.reasons or ()
    for parameters, why in reasons[:TOLD]:
        named = ", ".join(f"{name} {value}" for name, value in parameters.items())
        yield f"not tried, because it cannot run: {named}: {why}"
    if len(reasons) > TOLD:
        yield f"not tried, because they cannot run: {count_of(len(reasons) - TOLD, 'further combination')}"


def _heads(model: LocalModel | None, parameters: Mapping[str, Any]) -> str | None:
    ranks = parallel_sizes(parameters).get("tp", 1)
    if model is None or model.shape.heads % ranks == 0:
        return None
    return f"the model has {model.shape.heads} attention heads, which cannot be split evenly over {ranks} GPUs"
