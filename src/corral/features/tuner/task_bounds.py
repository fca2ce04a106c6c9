"""Checks that the values of a task are within bounds."""

from collections.abc import Mapping, Sequence

from corral.core.model.errors import Refused
from corral.features.services.selection import USUAL, check_selection
from corral.features.tuner.model.tuning_spec import MAX_TASK_NAME, BenchmarkSpec, DeploymentMode, TuningSpec

MOST_EXPERIMENTS = 10_000
MOST_PARALLEL = 64
MOST_LEVELS = 20
MOST_PARAMETERS = 64
MOST_VALUES = 4_096
"""The most values of all parameters together. Thousands of combinations are examined, so each must be small."""

MOST_CONCURRENCY = 10_000
MOST_REQUESTS = 1_000_000
MOST_MINUTES = 24 * 60.0
LONGEST_S = 7 * 86400.0
MAX_SCENARIO = 200


def check_bounds(spec: TuningSpec) -> None:
    """Raise Refused for a task with a value out of bounds, naming the field."""
    if not 1 <= len(spec.task_name) <= MAX_TASK_NAME or not spec.task_name.isprintable():
        raise Refused(f"task_name must have 1 to {MAX_TASK_NAME} printable characters", field="task_name")
    if not spec.model.id_or_path:
        raise Refused("model.id_or_path is empty; name a directory or a model of the hub", field="model.id_or_path")
    within("max_parallel", spec.max_parallel, 1, MOST_PARALLEL)
    if spec.gpu_wait_timeout_s is not None:
        within("gpu_wait_timeout_s", spec.gpu_wait_timeout_s, 0, LONGEST_S)
    _check_timeout(spec.optimization.get("timeout_per_iteration"))
    check_selection(spec.gpu_selection, "gpu_selection.")
    if spec.gpu_selection != USUAL and spec.deployment_mode not in (DeploymentMode.OME, DeploymentMode.KSERVE):
        raise Refused(
            f"gpu_selection: it is for model services, and deployment_mode is {spec.deployment_mode}; leave it out",
            field="gpu_selection",
        )
    _check_parameters(spec)
    _check_benchmark(spec.benchmark)


def _check_timeout(seconds: object) -> None:
    field = "optimization.timeout_per_iteration"
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise Refused(f"{field} is {seconds!r:.40}; it must be a number of seconds, such as 1800", field=field)
    within(field, seconds, 1, LONGEST_S)


def _check_parameters(spec: TuningSpec) -> None:
    given = (spec.parameters, spec.parallel_config, spec.quant_config)
    count, values = sum(map(len, given)), sum(_values_in(one) for one in given)
    if count > MOST_PARAMETERS:
        raise Refused(
            f"parameters: a task tries values of at most {MOST_PARAMETERS} parameters, not {count}; leave out those "
            "that matter least",
            field="parameters",
        )
    if values > MOST_VALUES:
        raise Refused(
            f"parameters: a task has at most {MOST_VALUES:,} values to try in all, not {values:,}; give a range in "
            'place of a long list, such as {"type": "integer", "low": 1, "high": 64}',
            field="parameters",
        )


def _values_in(value: object) -> int:
    """Return the number of single values in plain data, at any depth."""
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple)):
            waiting.extend(one)
        else:
            count += 1
    return count


def _check_benchmark(spec: BenchmarkSpec) -> None:
    _count("benchmark.traffic_scenarios", spec.traffic_scenarios)
    _count("benchmark.num_concurrency", spec.num_concurrency)
    for scenario in spec.traffic_scenarios:
        if not 1 <= len(scenario) <= MAX_SCENARIO:
            raise Refused(
                f"benchmark.traffic_scenarios: {scenario!r:.40} is no scenario; write such as D(100,100)",
                field="benchmark.traffic_scenarios",
            )
    for level in spec.num_concurrency:
        within("benchmark.num_concurrency", level, 1, MOST_CONCURRENCY)
    within("benchmark.max_requests_per_iteration", spec.max_requests_per_iteration, 1, MOST_REQUESTS)
    within("benchmark.max_time_per_iteration", spec.max_time_per_iteration, 0.001, MOST_MINUTES)


def _count(field: str, values: Sequence[object]) -> None:
    if not 1 <= len(values) <= MOST_LEVELS:
        raise Refused(f"{field}: name 1 to {MOST_LEVELS}, not {len(values)}", field=field)


def within(field: str, value: float, least: float, most: float) -> None:
    """Raise Refused unless `least <= value <= most`."""
    if not least <= value <= most:
        raise Refused(f"{field} must be from {least:g} to {most:g}, not {value:g}", field=field)
