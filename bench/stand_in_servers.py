"""Inference servers that are formulas: what each combination of parameters gives is known, so the optimum is too.

`DEVELOPED_ON` are the ones that the search was developed on; `bench/held_out_servers.py` has those of the figures.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from corral.features.tuner.search.problem import Problem, read_problem
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.search.trial import LevelReading, LoadLevel

DEPLOY_MINUTES = 1.5
FAILED_MINUTES = 1.0
LEVEL_MINUTES = 2.0

BETWEEN_DEPLOYMENTS = 0.01
"""Standard deviation from one deployment of the same parameters to the next, which longer measuring does not cure."""
OF_A_LEVEL = {"mean_ttft": 0.03, "p99_e2e_latency": 0.05}
OF_OTHERS = 0.02
"""Standard deviations of a whole level; of a shorter one they grow with the root of the time that is missing."""

Metrics = dict[str, float]


@dataclass(frozen=True)
class StandInServer:
    """A server, what is wanted of it, and its formula: from parameters and concurrency to metrics, None if it fails."""

    name: str
    task: dict[str, Any]
    serve: Callable[[dict[str, Any], int], Metrics | None]
    why_not: Callable[[Parameters], str | None] = lambda parameters: None

    def problem(self, strategy: str, seed: int, max_iterations: int) -> Problem:
        benchmark = {"num_concurrency": self.task["concurrency"], "max_time_per_iteration": LEVEL_MINUTES}
        chosen = {"strategy": strategy, "seed": seed, "max_iterations": max_iterations}
        task = {
            "parameters": self.task["parameters"],
            "slo": self.task.get("slo", {}),
            "benchmark": benchmark,
            "optimization": {**self.task["optimization"], **chosen},
        }
        return read_problem(task, why_not=self.why_not)

    @cached_property
    def true_scores(self) -> dict[tuple[Any, ...], float]:
        """Without noise, of each combination that starts and keeps the hard limits."""
        problem = self.problem("random", 0, 1)
        found = {}
        for row in product(*problem.space.steps):
            parameters = problem.space.named(row)
            if self.why_not(parameters) is not None:
                continue
            metrics = [self.serve(dict(parameters), level.concurrency) for level in problem.levels]
            if all(one is not None for one in metrics):
                readings = [LevelReading(level, one) for level, one in zip(problem.levels, metrics, strict=True) if one]
                scores = problem.scoring.of_readings(readings)
                if scores is not None:
                    found[row] = scores[0]
        return found

    @cached_property
    def optimum(self) -> float:
        return min(self.true_scores.values())

    def off(self, parameters: Parameters) -> float:
        """How much worse than the optimum, as a part of it."""
        score = self.true_scores.get(tuple(parameters.values()), math.inf)
        return (score - self.optimum) / abs(self.optimum)

    def measure(
        self, parameters: Parameters, level: LoadLevel, deployment: float, noise: random.Random
    ) -> Metrics | None:
        """With noise, and with what a server does worse at first. `deployment` is the deviation of this one."""
        metrics = self.serve(dict(parameters), level.concurrency)
        if metrics is None:
            return None
        warming_up = 0.08 * math.exp(-level.minutes / 0.5)
        found = {}
        for name, value in metrics.items():
            spread = OF_A_LEVEL.get(name, OF_OTHERS) * math.sqrt(LEVEL_MINUTES / level.minutes)
            worse = -1 if "throughput" in name else 1
            factor = math.exp(noise.gauss(0, spread) - worse * deployment)
            found[name] = value * factor * (1 + worse * warming_up)
        return found


def soft_min(*values: float) -> float:
    return float(sum(value**-6 for value in values) ** (-1 / 6))


@dataclass(frozen=True)
class _Model:
    weights_gb: float
    kv_mb_per_token: float
    layers: int


def _roofline(model: _Model, prompt: int, output: int) -> Callable[[dict[str, Any], int], Metrics | None]:
    """Continuous batching: a step reads the weights and the cache of its batch; prefill takes its part of each step."""
    memory_gb, bandwidth_gb_s, flops = 80.0, 2300.0, 4.5e14

    def serve(p: dict[str, Any], concurrency: int) -> Metrics | None:
        tp, chunk, share = p["tp-size"], p["chunked-prefill-size"], p["mem-fraction-static"]
        kv_mb = model.kv_mb_per_token * (0.5 if p["kv-cache-dtype"] == "fp8" else 1.0)
        cache_gb = tp * memory_gb * share - model.weights_gb
        if cache_gb < 2 or 2.0 + chunk * 0.9e-3 > memory_gb * (1 - share):
            return None
        per_request_gb = (prompt + output / 2) * kv_mb / 1024
        batch = soft_min(concurrency, p["max-running-requests"], cache_gb / per_request_gb)
        talk = 2 * model.layers * (6e-6 * math.log2(tp) + 2.5e-8 * batch * (tp - 1) / tp)
        decode = model.weights_gb / tp / bandwidth_gb_s + batch * per_request_gb / tp / bandwidth_gb_s + talk + 0.002
        prefill = prompt * model.weights_gb * 1e9 / (tp * flops) * (1 + 300 / chunk) + talk
        step = decode + batch / output * prefill * (1 + 0.2 * (chunk / 8192) ** 1.5)
        step *= {"lpm": 0.96, "fcfs": 1.0, "dfs-weight": 0.98}[p["schedule-policy"]]
        step *= 1.03 if p["kv-cache-dtype"] == "fp8" else 1.0
        waiting = max(concurrency / batch - 1, 0.0) * output * step
        ttft = prefill * (1 + chunk / 16384) + waiting + 0.01
        latency = ttft + output * step
        throughput = concurrency * (prompt + output) / latency
        return {
            "mean_total_throughput_per_gpu": throughput / tp,
            "mean_ttft": ttft,
            "mean_tpot": step,
            "mean_e2e_latency": latency,
            "p99_e2e_latency": latency * 1.4,
        }

    return serve


_PARAMETERS = {
    "tp-size": [1, 2, 4, 8],
    "max-running-requests": [8, 16, 32, 64, 128, 256, 512],
    "chunked-prefill-size": [512, 1024, 2048, 4096, 8192, 16384],
    "mem-fraction-static": [0.7, 0.75, 0.8, 0.85, 0.9, 0.95],
    "schedule-policy": ["lpm", "fcfs", "dfs-weight"],
    "kv-cache-dtype": ["auto", "fp8"],
}

DEVELOPED_ON = (
    StandInServer(
        "8B, throughput within 40 ms a token",
        {
            "parameters": _PARAMETERS,
            "concurrency": [16, 64, 128, 256],
            "optimization": {"objective": "maximize_throughput"},
            "slo": {"tpot": {"threshold": 0.04}},
        },
        _roofline(_Model(16, 0.125, 32), 1024, 256),
    ),
    StandInServer(
        "70B, throughput",
        {
            "parameters": _PARAMETERS,
            "concurrency": [16, 64, 128, 256],
            "optimization": {"objective": "maximize_throughput"},
        },
        _roofline(_Model(140, 0.32, 80), 1024, 256),
    ),
    StandInServer(
        "8B, latency",
        {
            "parameters": _PARAMETERS,
            "concurrency": [1, 8, 32, 128],
            "optimization": {"objective": "minimize_latency"},
            "slo": {"ttft": {"threshold": 0.5}},
        },
        _roofline(_Model(16, 0.125, 32), 4096, 128),
    ),
)
"""In each, a server and a model of the years 2024 and 2025 on GPUs with 80 GB."""
