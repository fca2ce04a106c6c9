"""Converts a task to the problem of a search. Pure."""

from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.search.problem import Problem, read_problem
from corral.wire import to_plain


def problem_of(config: TuningSpec, engine: InferenceEngine) -> Problem:
    """Return the problem of a task. Raises Refused."""
    return read_problem(to_plain(config), max_parallel=config.max_parallel, why_not=engine.why_not)
