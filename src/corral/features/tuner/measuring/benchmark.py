"""Measures any server under the traffic of a `benchmark`, and returns the figures that autotuners read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corral.core.model.errors import Refused
from corral.features.tuner.measuring.generators import choose_generator, with_tokenizer
from corral.features.tuner.measuring.gpu_records import figures_of_gpus, gpus_of_level
from corral.features.tuner.measuring.gpus_here import watched_gpus
from corral.features.tuner.measuring.level_figures import AppliedLoad, MeasuredLevel, combined, level_metrics
from corral.features.tuner.model.tuning_spec import BenchmarkSpec
from corral.wire import from_plain

_MINUTE_S = 60.0


def run_benchmark_job(
    endpoint_url: str,
    benchmark_spec: Mapping[str, Any],
    gpu_indices: Sequence[int] | None = None,
    *,
    on_level: Callable[[AppliedLoad], None] = lambda load: None,
) -> dict[str, Any]:
    """Measure a server at `endpoint_url` (without /v1) at all levels of a `benchmark` as in a task's file.

    `gpu_indices` are the server's GPUs, for throughput by GPU. If the server is on this host, they are read while it is
    measured: `gpu_monitoring` has their readings during all levels; None if they are not known. `on_level` is called at
    the start of each level. Returns the metrics of an experiment, in seconds and tokens. Raises Refused for an invalid
    benchmark, for an index that no GPU of this host has, or if no request was answered, and GeneratorFailed.
    """
    spec = from_plain(BenchmarkSpec, dict(benchmark_spec), field="benchmark")
    spec = with_tokenizer(spec, spec.model_name)
    generator, note = choose_generator(spec)
    levels: list[tuple[MeasuredLevel, dict[str, Any]]] = []
    with watched_gpus(endpoint_url, gpu_indices) as window:
        for load in loads_of(spec):
            on_level(load)
            level = generator.measure(endpoint_url, spec, load)
            levels.append((level, gpus_of_level(level.duration_s, window(level.began_at, level.ended_at))))
    if not any(level.answered for level, _ in levels):
        raise Refused(f"{endpoint_url} answered no request: {levels[0][0].first_failure}", field="endpoint_url")
    gpus = len(gpu_indices) if gpu_indices else None
    found = [level_metrics(level, generator=generator.name, gpus=gpus) | of_gpus for level, of_gpus in levels]
    noted = {} if note is None else {"generator_note": note}
    return combined(found) | {"gpu_monitoring": None} | figures_of_gpus(found) | noted


def loads_of(spec: BenchmarkSpec) -> tuple[AppliedLoad, ...]:
    """Return all levels of the benchmark, with their limits."""
    return tuple(
        AppliedLoad(scenario, level, spec.max_requests_per_iteration, spec.max_time_per_iteration * _MINUTE_S)
        for scenario, level in spec.levels
    )
