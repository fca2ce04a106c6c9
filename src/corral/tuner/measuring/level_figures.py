"""What a level of load came to, whoever applied it, and the metrics of an experiment over all its levels. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.core.model.errors import CorralError

BUILT_IN = "corral"
GENAI_BENCH = "genai-bench"

HEADLINES = (
    *("mean_e2e_latency", "p50_e2e_latency", "p90_e2e_latency", "p99_e2e_latency"),
    *("mean_ttft", "mean_tpot"),
)
RATES = ("mean_output_throughput", "mean_total_throughput")


class GeneratorFailed(CorralError):
    """A load generator broke, so that nothing is known of the server."""


@dataclass(frozen=True, slots=True)
class AppliedLoad:
    """One level: a scenario, so many requests at a time, until so many were made or the time is over."""

    scenario: str
    concurrency: int
    most_requests: int
    most_s: float


@dataclass(frozen=True, slots=True)
class MeasuredLevel:
    """What a load generator says of one level. Times are Unix seconds.

    Attributes:
        figures: seconds, tokens a second, and statistics of each, by the names that autotuners have for them; empty of
            a level that was stopped.
        answered: requests with a good answer.
        first_failure: what the first request said that failed.
        stopped: whether it was ended from outside, so that it counts for nothing.
    """

    began_at: float
    ended_at: float
    figures: Mapping[str, Any]
    answered: int
    first_failure: str | None = None
    stopped: bool = False

    @property
    def duration_s(self) -> float:
        return self.ended_at - self.began_at


def level_metrics(level: MeasuredLevel, *, generator: str, gpus: int | None) -> dict[str, Any]:
    """The figures of one level with the name of its generator, and by GPU where their number is known."""
    by_gpu = {f"{name}_per_gpu": level.figures[name] / gpus for name in RATES if gpus and name in level.figures}
    return {"generator": generator, **level.figures, **by_gpu}


def combined(levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The metrics of an experiment over levels of `level_metrics`; means are over levels."""
    latency = [stats for level in levels if (stats := level["stats"].get("e2e_latency")) is not None]
    asked = sum(level["num_requests"] for level in levels)
    good = sum(level["num_completed_requests"] for level in levels)
    metrics: dict[str, Any] = {
        "generator": ", ".join(sorted({level.get("generator", BUILT_IN) for level in levels})),
        "num_result_files": len(levels),
        "concurrency_levels": sorted({level["num_concurrency"] for level in levels}),
        "total_requests": asked,
        "total_completed_requests": good,
        "total_error_requests": asked - good,
        "success_rate": good / asked if asked else 0.0,
        "elapsed_time": sum(level["run_duration"] for level in levels),
        "raw_results": list(levels),
    }
    if latency:
        metrics["min_e2e_latency"] = min(stats["min"] for stats in latency)
        metrics["max_e2e_latency"] = max(stats["max"] for stats in latency)
    for name in (*HEADLINES, *RATES, *(f"{rate}_per_gpu" for rate in RATES)):
        values = [level[name] for level in levels if level.get(name) is not None]
        if values:
            metrics[name] = statistics.fmean(values)
            if "throughput" in name:
                metrics[name.replace("mean_", "max_")] = max(values)
    return metrics


def headlines_of(stats: Mapping[str, Mapping[str, float] | None]) -> dict[str, float]:
    """The figures that objectives and limits are about; those that were not measured are left out."""
    latency, ttft, tpot = stats.get("e2e_latency"), stats.get("ttft"), stats.get("tpot")
    found = {}
    if latency is not None:
        found = {f"{name}_e2e_latency": latency[name] for name in ("mean", "p50", "p90", "p99")}
    if ttft is not None:
        found["mean_ttft"] = ttft["mean"]
    if tpot is not None:
        found["mean_tpot"] = tpot["mean"]
    return found
