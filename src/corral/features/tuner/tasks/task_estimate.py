"""Estimates the most that a task needs: experiments, GPUs, and measuring time. Pure."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from random import Random
from typing import NamedTuple

from corral.config.tuner import TunerSettings
from corral.core.model.serving.parallelism import world_size
from corral.core.model.units import count_of
from corral.features.tuner.deployments.deployment import Mode
from corral.features.tuner.deployments.modes import mode_of
from corral.features.tuner.deployments.node_layout import GpuCounts, node_layout
from corral.features.tuner.engines.inference_engine import InferenceEngine, engine_on_site
from corral.features.tuner.finding_answers import TaskEstimate
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.search.problem import GRID_LIMIT, Problem, SearchStrategy
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.tasks.task_check import check_task
from corral.features.tuner.tasks.task_problem import problem_of

LOOKED_AT = 2_000
"""The most combinations whose GPUs are counted; the others are assumed to be similar."""


class _Sizes(NamedTuple):
    """What one candidate takes: its GPUs, and on how many nodes; None if no nodes hold it."""

    gpus: int
    nodes: int | None


def estimate(spec: TuningSpec, there: GpuCounts, site: TunerSettings) -> TaskEstimate:
    """Return the estimate of a task on nodes with these GPUs. Raises Refused."""
    noted = check_task(spec, site)
    engine, mode = engine_on_site(spec, site), mode_of(spec.deployment_mode, site)
    problem = problem_of(spec, engine)
    sizes = [
        _sizes(spec, engine, mode, one, there=there) for one in _looked_at(problem) if problem.why_not(one) is None
    ]
    if not sizes:
        return TaskEstimate(0, problem.space.size, 0, 0, 0.0, 0.0, 0.0, ("no combination can run", *noted))
    measuring_s = 60.0 * sum(level.minutes for level in problem.levels)
    count = problem.most_trials
    gpus = [one.gpus for one in sizes]
    gpu_hours = count * measuring_s / 3600 * sum(gpus) / len(gpus)
    fits = all(one.nodes for one in sizes)
    all_gpus = sum(sum(models.values()) for models in there.values())
    hours = max(count * measuring_s / 3600 / spec.max_parallel, gpu_hours / all_gpus) if fits else None
    nodes = max(one.nodes or 1 for one in sizes)
    notes = (*noted, *_of_nodes(sizes, nodes, there))
    return TaskEstimate(count, problem.space.size, min(gpus), max(gpus), measuring_s, gpu_hours, hours, notes, nodes)


def _sizes(
    spec: TuningSpec, engine: InferenceEngine, mode: Mode, parameters: Parameters, *, there: GpuCounts
) -> _Sizes:
    gpus = world_size(engine.name, parameters)
    layout = node_layout(gpus, there, partial(mode.why_not_over_nodes, spec, engine, parameters))
    return _Sizes(gpus, None if isinstance(layout, str) else layout.members)


def _of_nodes(sizes: Sequence[_Sizes], nodes: int, there: GpuCounts) -> Iterator[str]:
    if nodes > 1:
        gpus = max(one.gpus for one in sizes if one.nodes is not None)
        yield f"experiments with up to {gpus} GPUs are gangs over up to {nodes} nodes, because no node has so many"
    unheld = max((one.gpus for one in sizes if one.nodes is None), default=0)
    if unheld:
        largest = max((sum(models.values()) for models in there.values()), default=0)
        needs = f"it needs up to {count_of(unheld, 'GPU')} on one node, and the largest has {largest}"
        yield f"{needs}; no gang over several nodes holds that"


def _looked_at(problem: Problem) -> Iterator[Parameters]:
    size = problem.space.size
    if size is not None and problem.strategy is SearchStrategy.GRID and size <= GRID_LIMIT:
        return islice(problem.space.grid(), min(problem.max_iterations, LOOKED_AT))
    random = Random(0)
    return (problem.space.draw(random) for _ in range(min(LOOKED_AT, size or LOOKED_AT)))
