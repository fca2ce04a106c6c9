"""The results of a task for people: the best parameters, their gain, and the command to serve with them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from corral.features.tuner.answers import ExperimentRow, TaskDetail
from corral.features.tuner.engines.inference_engine import engine_of
from corral.features.tuner.search.front import not_beaten
from corral.features.tuner.search.objective import Objective
from corral.features.tuner.tasks.best_combinations import Tried, combination_of, gpu_model_of, mean_of, scored

_SECONDS = ("mean_ttft", "mean_tpot", "mean_e2e_latency", "p90_e2e_latency", "p99_e2e_latency")
_RATES = ("mean_output_throughput", "mean_total_throughput", "mean_total_throughput_per_gpu")
_ENERGY = "energy_per_output_token_j"
_LABELS = {
    "mean_ttft": "time to first token",
    "mean_tpot": "time per output token",
    "mean_e2e_latency": "latency",
    "p90_e2e_latency": "latency, 90 % below",
    "p99_e2e_latency": "latency, 99 % below",
    "mean_output_throughput": "output tokens/s",
    "mean_total_throughput": "tokens/s",
    "mean_total_throughput_per_gpu": "tokens/s per GPU",
    _ENERGY: "energy per output token",
}
_OBJECTIVES = {objective.value: objective for objective in Objective}


class Figure(NamedTuple):
    """One measured value of the best experiment, and of the default if it was measured."""

    label: str
    best: str
    default: str


def objective_metrics(detail: TaskDetail) -> tuple[str, ...]:
    """Return the metric of each objective of a task, in order."""
    given = detail.config.optimization.get("objective")
    names = given if isinstance(given, list | tuple) and given else [given]
    return tuple(_OBJECTIVES.get(str(name), Objective.LATENCY).metrics[0] for name in names)


def front_of(detail: TaskDetail, experiments: Sequence[ExperimentRow]) -> tuple[ExperimentRow, ...]:
    """Return the Pareto front of combinations with several objectives on each model of GPU, best by the first.

    Each has its first experiment, with the means of its measurements. () with one objective.
    """
    names = objective_metrics(detail)
    if len(names) < 2:
        return ()
    measured: dict[str | None, dict[str, list[ExperimentRow]]] = {}
    for one in scored(experiments):
        if all(name in _numbers(one) for name in names):
            measured.setdefault(gpu_model_of(one), {}).setdefault(combination_of(one), []).append(one)
    return tuple(row for of_model in measured.values() for row in _front([*map(mean_of, of_model.values())], names))


def _front(rows: Sequence[ExperimentRow], names: Sequence[str]) -> Iterator[ExperimentRow]:
    values = [tuple((-1 if name in _RATES else 1) * _numbers(one)[name] for name in names) for one in rows]
    return (rows[index] for index in not_beaten(values))


def front_figures(detail: TaskDetail, one: ExperimentRow) -> tuple[str, ...]:
    """Return the measured values of an experiment for each objective, as text."""
    return tuple(_value(name, _numbers(one).get(name)) for name in objective_metrics(detail))


def objective_labels(detail: TaskDetail) -> tuple[str, ...]:
    """Return the name of each objective's metric, in words."""
    return tuple(_LABELS[name] for name in objective_metrics(detail))


def default_of(detail: TaskDetail, experiments: Sequence[Tried], gpu_model: str | None) -> tuple[Tried, ...]:
    """Return all experiments with the engine's default parameters on a model of GPU; () if none was measured."""
    engine = engine_of(detail.config)
    alike = [one for one in scored(experiments) if gpu_model_of(one) == gpu_model]
    first = next((one for one in alike if engine.is_default(one.parameters)), None)
    return () if first is None else tuple(one for one in alike if combination_of(one) == combination_of(first))


def parameters_in_words(one: ExperimentRow) -> str:
    """Return the parameters as text, such as "tp-size 2, max-num-seqs 16"."""
    return ", ".join(f"{name.split('__')[-1]} {value}" for name, value in one.parameters.items())


def gain_in_words(detail: TaskDetail, best: ExperimentRow, default: ExperimentRow | None) -> str:
    """Return how much better the best is than the default, by the first objective, as text."""
    name = objective_metrics(detail)[0]
    label = _LABELS[name]
    if default is None:
        return "the default parameters were not among those tried, so there is nothing to compare with"
    if default.parameters == best.parameters:
        return "the default parameters are the best of those tried"
    ours, theirs = _numbers(best).get(name), _numbers(default).get(name)
    if not ours or not theirs:
        return "the default parameters were measured, but without a value of the objective"
    if name in _RATES:
        return f"{ours / theirs:.2f} times the {label} of the default"
    return f"{1 - ours / theirs:.0%} less {label} than the default"


def figures(best: ExperimentRow, default: ExperimentRow | None) -> Iterator[Figure]:
    """Yield the measured values of both."""
    ours, theirs = _numbers(best), _numbers(default)
    for name in (*_RATES, *_SECONDS, _ENERGY):
        if name in ours:
            yield Figure(_LABELS[name], _value(name, ours[name]), _value(name, theirs.get(name)))
    yield Figure("requests answered", _requests(ours), _requests(theirs))


def _value(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name == _ENERGY:
        return f"{value:,.3g} J"
    return f"{value:,.0f}" if name in _RATES else f"{1000 * value:,.1f} ms"


def _numbers(one: ExperimentRow | None) -> Mapping[str, float]:
    """Return the metrics that are numbers: the user of a task may write any values there."""
    metrics = {} if one is None else one.metrics or {}
    return {name: value for name, value in metrics.items() if type(value) in (int, float)}


def _requests(metrics: Mapping[str, float]) -> str:
    if not {"total_completed_requests", "total_requests"} <= metrics.keys():
        return "-"
    return f"{metrics['total_completed_requests']:,} of {metrics['total_requests']:,}"
