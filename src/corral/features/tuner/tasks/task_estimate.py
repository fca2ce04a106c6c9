"""Estimates the most that a task needs: experiments, GPUs, and measuring time. Pure."""

from collections.abc import Iterator
from itertools import islice
from random import Random

from corral.config.tuner import TunerSettings
from corral.core.model.serving.parallelism import world_size
from corral.core.model.units import count_of
from corral.features.tuner.engines.inference_engine import engine_of
from corral.features.tuner.finding_answers import TaskEstimate
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.search.problem import GRID_LIMIT, Problem, SearchStrategy
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.tasks.task_check import check_task
from corral.features.tuner.tasks.task_problem import problem_of

LOOKED_AT = 2_000
"""The most combinations whose GPUs are counted; the others are assumed to be similar."""


def estimate(spec: TuningSpec, node_gpus: tuple[int, ...], site: TunerSettings) -> TaskEstimate:
    """Return the estimate of a task on nodes with these numbers of GPUs. Raises Refused."""
    noted = check_task(spec, site)
    engine = engine_of(spec)
    problem = problem_of(spec, engine)
    sizes = [world_size(engine.name, one) for one in _looked_at(problem) if problem.why_not(one) is None]
    if not sizes:
        return TaskEstimate(0, problem.space.size, 0, 0, 0.0, 0.0, 0.0, ("no combination can run", *noted))
    measuring_s = 60.0 * sum(level.minutes for level in problem.levels)
    count = problem.most_trials
    gpu_hours = count * measuring_s / 3600 * sum(sizes) / len(sizes)
    largest, there = max(node_gpus, default=0), sum(node_gpus)
    fits = max(sizes) <= largest
    hours = max(count * measuring_s / 3600 / spec.max_parallel, gpu_hours / there) if fits else None
    too_few = f"it needs up to {count_of(max(sizes), 'GPU')} on one node, and the largest has {largest}"
    notes = noted if fits else (*noted, too_few)
    return TaskEstimate(count, problem.space.size, min(sizes), max(sizes), measuring_s, gpu_hours, hours, notes)


def _looked_at(problem: Problem) -> Iterator[Parameters]:
    size = problem.space.size
    if size is not None and problem.strategy is SearchStrategy.GRID and size <= GRID_LIMIT:
        return islice(problem.space.grid(), min(problem.max_iterations, LOOKED_AT))
    random = Random(0)
    return (problem.space.draw(random) for _ in range(min(LOOKED_AT, size or LOOKED_AT)))
