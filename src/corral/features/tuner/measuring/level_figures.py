"""The result of a level of load, from any generator, and the metrics of an experiment over all its levels. Pure."""

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
    """A load generator failed, so nothing is known about the server."""


@dataclass(frozen=True, slots=True)
class AppliedLoad:
    """One level: a scenario, `concurrency` requests at a time, until `most_requests` or `most_s` is reached."""

    scenario: str
    concurrency: int
    most_requests: int
    most_s: float


@dataclass(frozen=True, slots=True)
class MeasuredLevel:
    """A load generator's result for one level. Times are Unix seconds.

    Attributes:
        figures: seconds, tokens a second, and statistics of each, by the names that autotuners use; empty for a stopped
            level.
        answered: the number of requests with a valid answer.
        first_failure: the error of the first failed request.
        stopped: whether it was ended from outside, and does not count.
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
    """Return the figures of one level with the generator's name, and per GPU if the number of GPUs is known."""
    by_gpu = {f"{name}_per_gpu": level.figures[name] / gpus for name in RATES if gpus and name in level.figures}
    return {"generator": generator, **level.figures, **by_gpu}


def combined(levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the metrics of an experiment from its `level_metrics`; means are over levels."""
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
    """Return the figures that objectives and limits use; figures that were not measured are left out."""
    latency, ttft, tpot = stats.get("e2e_latency"), stats.get("ttft"), stats.get("tpot")
    found = {}
    if latency is not None:
        found = {f"{name}_e2e_latency": latency[name] for name in ("mean", "p50", "p90", "p99")}
    if ttft is not None:
        found["mean_ttft"] = ttft["mean"]
    if tpot is not None:
        found["mean_tpot"] = tpot["mean"]
    return found
