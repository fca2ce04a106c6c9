"""The built-in load generator, which needs no installation, and its figures."""

import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corral.core.model.errors import Refused
from corral.features.tuner.measuring.chat_stream import ChatServer
from corral.features.tuner.measuring.level_figures import BUILT_IN, AppliedLoad, MeasuredLevel, headlines_of
from corral.features.tuner.measuring.load_generator import LoadResult, generate
from corral.features.tuner.measuring.traffic import read_scenario
from corral.features.tuner.model.tuning_spec import BenchmarkSpec

_TASK = "text-to-text"
_QUANTILES = (25, 50, 75, 90, 95, 99)


class BuiltInGenerator:
    """Streams chat completions. It has no tokenizer: a short common word counts as one token of a prompt."""

    name = BUILT_IN

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """`env` has the key for the server, if the server needs one: OPENAI_API_KEY."""
        self._api_key = (os.environ if env is None else env).get("OPENAI_API_KEY", "")

    def why_not(self, spec: BenchmarkSpec) -> str | None:
        """Return why it cannot apply the traffic of a benchmark, None if it can."""
        if spec.task != _TASK:
            return f"it measures {_TASK} alone, not {spec.task!r:.60}"
        try:
            for scenario in spec.traffic_scenarios:
                read_scenario(scenario)
        except Refused as refused:
            return str(refused)
        return None

    def measure(
        self,
        endpoint_url: str,
        spec: BenchmarkSpec,
        load: AppliedLoad,
        *,
        seed: int = 0,
        stop: Callable[[], bool] = lambda: False,
    ) -> MeasuredLevel:
        """Apply one level of load."""
        server = ChatServer(endpoint_url.rstrip("/").removesuffix("/v1"), self._api_key)
        result = generate(server, spec, load, seed=seed, stop=stop)
        return MeasuredLevel(
            result.began_at,
            result.ended_at,
            _figures(result),
            len(result.answers),
            result.first_failure,
            stopped=result.stopped,
        )


def _figures(result: LoadResult) -> dict[str, Any]:
    answers, errors = result.answers, sum(result.failures.values())
    output = sum(answer.output_tokens for answer in answers)
    prompt = sum(answer.prompt_tokens or 0 for answer in answers)
    span_s = max(result.duration_s, 1e-9)
    columns: dict[str, list[float]] = {
        "ttft": [answer.ttft_s for answer in answers],
        "tpot": [answer.tpot_s for answer in answers if answer.tpot_s is not None],
        "e2e_latency": [answer.e2e_s for answer in answers],
        "num_input_tokens": [float(answer.prompt_tokens or 0) for answer in answers],
        "num_output_tokens": [float(answer.output_tokens) for answer in answers],
    }
    stats = {name: _stats(values) for name, values in columns.items()}
    return {
        "scenario": result.scenario,
        "num_concurrency": result.concurrency,
        "run_duration": result.duration_s,
        "num_requests": len(answers) + errors,
        "num_completed_requests": len(answers),
        "num_error_requests": errors,
        "error_codes_frequency": dict(result.failures),
        "requests_per_second": len(answers) / span_s,
        **headlines_of(stats),
        "mean_output_throughput": output / span_s,
        "mean_total_throughput": (output + prompt) / span_s,
        "stats": stats,
    }


def _stats(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": statistics.fmean(ordered),
        "stddev": statistics.pstdev(ordered),
        "sum": math.fsum(ordered),
        **{f"p{quantile}": _quantile(ordered, quantile) for quantile in _QUANTILES},
    }


def _quantile(ordered: Sequence[float], quantile: float) -> float:
    """Return a quantile by linear interpolation between the two nearest ranks."""
    place = (len(ordered) - 1) * quantile / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
