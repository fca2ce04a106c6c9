"""Estimates the most that a task needs: experiments, GPUs, and measuring time. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from random import Random
from typing import NamedTuple

from corral.config.tuner import TunerSettings
from corral.core.model.serving.parallelism import world_size
from corral.core.model.units import count_of
from corral.features.tuner.deployments.deployment import Mode
from corral.features.tuner.deployments.modes import mode_of
from corral.features.tuner.deployments.node_layout import GpuCounts, most_of_one_model, node_layout
from corral.features.tuner.engines.inference_engine import InferenceEngine, engine_on_site
from corral.features.tuner.finding_answers import TaskEstimate
from corral.features.tuner.model.tuning_spec import GPU_OPTIONS, TuningSpec
from corral.features.tuner.search.problem import DRAWS, GRID_LIMIT, Problem, SearchStrategy
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.tasks.known_limits import why_not
from corral.features.tuner.tasks.obtainable_gpus import ObtainableGpus
from corral.features.tuner.tasks.task_check import check_task
from corral.features.tuner.tasks.task_problem import problem_of

LOOKED_AT = 2_000
"""The most combinations whose GPUs are counted; the others are assumed to be similar."""

_CONDITIONS = frozenset({"gpu_model", "node", "device", "min_memory", "label"})
"""The keys of a task that leave GPUs out."""


class _Sizes(NamedTuple):
    """The GPUs and nodes that one candidate takes.

    Attributes:
        used: the GPUs that its server uses.
        held: the GPUs that it has: with `exclusive` all those of its nodes.
        nodes: the number of its nodes, None if no nodes hold it.
    """

    used: int
    held: int
    nodes: int | None


def estimate(spec: TuningSpec, gpus: ObtainableGpus, site: TunerSettings) -> TaskEstimate:
    """Return the estimate of a task with these GPUs. Raises Refused.

    Combinations that the search would not try do not count. The model is known by its name alone: its files may be
    readable only for the task's user.
    """
    noted, there = check_task(spec, site), gpus.counts
    engine, mode = engine_on_site(spec, site), mode_of(spec.deployment_mode, site)
    problem = replace(problem_of(spec, engine), why_not=why_not(spec, engine, None, gpus.memory_mib))
    sizes = [_sizes(spec, engine, mode, one, there=there) for one in _looked_at(problem)]
    size = problem.space.size
    if not sizes:
        return TaskEstimate(0, size, 0, 0, 0.0, 0.0, 0.0, ("no combination can run", *_left_out(problem), *noted))
    measuring_s = 60.0 * sum(level.minutes for level in problem.levels)
    count = problem.most_trials()
    held = [one.held for one in sizes]
    gpu_hours = count * measuring_s / 3600 * sum(held) / len(held)
    fits = all(one.nodes for one in sizes)
    all_gpus = sum(sum(models.values()) for models in there.values())
    hours = max(count * measuring_s / 3600 / spec.max_parallel, gpu_hours / all_gpus) if fits else None
    nodes = max(one.nodes or 1 for one in sizes)
    notes = (*noted, *_left_out(problem), *_of_whole_nodes(spec, sizes), *_of_nodes(spec, sizes, nodes, there))
    return TaskEstimate(count, size, min(held), max(held), measuring_s, gpu_hours, hours, notes, nodes)


def _sizes(
    spec: TuningSpec, engine: InferenceEngine, mode: Mode, parameters: Parameters, *, there: GpuCounts
) -> _Sizes:
    used = world_size(engine.name, parameters)
    over_nodes = partial(mode.why_not_over_nodes, spec, engine, parameters)
    layout = node_layout(used, there, over_nodes, exclusive=spec.exclusive)
    if isinstance(layout, str):
        return _Sizes(used, used, None)
    held = layout.members * most_of_one_model(there, layout.model) if spec.exclusive else used
    return _Sizes(used, held, layout.members)


def _left_out(problem: Problem) -> Iterator[str]:
    """Yield how many combinations are not tried, with the first reason."""
    reasons = problem.reasons
    if reasons:
        cannot = f"{count_of(len(reasons), 'combination')} of {problem.space.size:,} cannot run and will not be tried"
        yield f"{cannot}; the first one: {reasons[0][1]}"


def _of_whole_nodes(spec: TuningSpec, sizes: Sequence[_Sizes]) -> Iterator[str]:
    if spec.exclusive:
        least, most = min(one.used for one in sizes), max(one.used for one in sizes)
        used = count_of(most, "GPU") if least == most else f"{least} to {most} GPUs"
        yield f"each experiment has all GPUs of its nodes (exclusive), and its server uses {used} of them"


def _of_nodes(spec: TuningSpec, sizes: Sequence[_Sizes], nodes: int, there: GpuCounts) -> Iterator[str]:
    if nodes > 1:
        gpus = max(one.used for one in sizes if one.nodes is not None)
        yield f"experiments with up to {gpus} GPUs are gangs over up to {nodes} nodes, because no node has so many"
    unheld = max((one.used for one in sizes if one.nodes is None), default=0)
    if unheld and not most_of_one_model(there):
        keys = [key for key in GPU_OPTIONS if key in _CONDITIONS and getattr(spec, key)]
        yield f"no GPU here meets the task's {' and '.join(keys)}" if keys else "this site has no GPU"
    elif unheld:
        needs = f"it needs up to {count_of(unheld, 'GPU')} of one model on one node"
        yield f"{needs}, and the largest has {most_of_one_model(there)}; no gang over several nodes holds that"


def _looked_at(problem: Problem) -> Sequence[Parameters]:
    """Return combinations that may run: all, or the first ones of a grid, or random ones of a large space."""
    size = problem.space.size
    if size is not None and (size <= DRAWS or (problem.strategy is SearchStrategy.GRID and size <= GRID_LIMIT)):
        most = problem.max_iterations if problem.strategy is SearchStrategy.GRID else LOOKED_AT
        can_run = (one for one in islice(problem.space.grid(), DRAWS) if problem.why_not(one) is None)
        first = list(islice(can_run, min(most, LOOKED_AT)))
        if first or size <= DRAWS:
            return first
    random = Random(0)
    drawn = (problem.space.draw(random) for _ in range(LOOKED_AT))
    return [one for one in drawn if problem.why_not(one) is None]
