"""The stand-in servers of the figures. They were written before the search was tried on any of them.

Each has another published shape: Gunther's universal scalability law, a closed queueing network by mean value analysis,
speculative decoding by Leviathan et al., and Amdahl's law with an all-to-all exchange between experts.
"""

import math
from typing import Any

from bench.stand_in_servers import Metrics, StandInServer, soft_min
from corral.features.tuner.search.space import Parameters


def _metrics(throughput: float, gpus: int, ttft: float, tpot: float, *, tail: float, output: int) -> Metrics:
    latency = ttft + tpot * output
    return {
        "mean_total_throughput_per_gpu": throughput / gpus,
        "mean_ttft": ttft,
        "mean_tpot": tpot,
        "mean_e2e_latency": latency,
        "p99_e2e_latency": latency * tail,
    }


def _scalability_law(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """Throughput N / (1 + a (N - 1) + b N (N - 1)): contention a, coherency b, which grows as the cache runs out."""
    tp, tokens, share = p["tensor-parallel-size"], p["max-num-batched-tokens"], p["gpu-memory-utilization"]
    if 40 * share - 16 / tp < 1.5 or tokens * 1.1e-4 > 40 * (1 - share) + 0.4:
        return None
    running = soft_min(concurrency, p["max-num-seqs"])
    cached = (40 * share * tp - 16) / (0.13 * (1.0 if p["enable-prefix-caching"] else 1.25))
    pressure = running / cached
    contention = 0.006 + 0.02 * (tp - 1) / 8 + 0.004 * abs(math.log2(tokens / 8192)) ** 1.5
    coherency = 1.2e-5 * (1 + 6 * pressure**3)
    one = 85 * tp**0.82 * {8: 0.96, 16: 1.0, 32: 0.985}[p["block-size"]] * (1.05 if p["enable-prefix-caching"] else 1.0)
    output = 200
    rate = one * running / (1 + contention * (running - 1) + coherency * running * (running - 1))
    tpot = running / rate
    ttft = 0.05 + 0.6 / tp**0.7 * (tokens / 8192) ** 0.3 + max(concurrency / running - 1, 0) * tpot * output
    throughput = concurrency * 5 * output / (ttft + tpot * output)
    return _metrics(throughput, tp, ttft, tpot, tail=1.3 + 0.2 * pressure, output=output)


def _closed_queue(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """Prefill and decode as two stations of a closed network: Schweitzer's mean value analysis."""
    tp, pp, chunk, graph = p["tp-size"], p["pp-size"], p["chunked-prefill-size"], p["cuda-graph-max-bs"]
    weights_gb, memory_gb, output = 26.0, 48.0, 150
    if weights_gb / (tp * pp) + graph * 0.011 + chunk * 3e-4 + 4 > memory_gb * 0.92:
        return None
    gpus = tp * pp
    serial = 0.22
    speed = 1 / (serial / (1 + 0.55 * (pp - 1)) + (1 - serial) / (tp**0.9 * (1 + 0.35 * (pp - 1))))
    admitted = soft_min(concurrency, p["max-running-requests"] * p["schedule-conservativeness"] ** -0.3)
    prefill_s = 0.11 / speed * (1 + 0.35 * (1024 / chunk) ** 0.8 + 0.06 * chunk / 4096) * (1 + 0.02 * math.log2(gpus))
    beyond = max(admitted / graph, 1.0)
    decode_s = (1.9 + 0.004 * admitted) / speed * (1 + 0.12 * (1 - 1 / beyond)) * (1 + 0.03 * (tp - 1))
    retracted = 0.05 * max(0.9 - p["schedule-conservativeness"], 0) ** 2 * admitted / 16
    decode_s *= 1 + retracted + 0.05 * max(p["schedule-conservativeness"] - 0.9, 0) ** 2
    servers = 24 * math.sqrt(gpus)
    at_prefill = admitted / 2
    for _ in range(20):
        wait_prefill = prefill_s * (1 + at_prefill * (admitted - 1) / admitted)
        wait_decode = decode_s * (1 + max((admitted - at_prefill) * (admitted - 1) / admitted - servers, 0) / servers)
        at_prefill = admitted * wait_prefill / (wait_prefill + wait_decode)
    queue = max(concurrency / admitted - 1, 0) * (wait_prefill + wait_decode)
    ttft = wait_prefill + queue + 0.02
    tpot = wait_decode / output
    return _metrics(concurrency * 6 * output / (ttft + wait_decode), gpus, ttft, tpot, tail=1.5, output=output)


def _speculation(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """Tokens a step (1 - a^(k+1)) / (1 - a), at the cost of k steps of the draft and of checking a larger batch."""
    tp, guesses = p["tensor-parallel-size"], p["num-speculative-tokens"]
    if 70 / tp + 0.09 * p["max-num-seqs"] / tp + (4 / p["draft-tensor-parallel-size"] if guesses else 0) > 72:
        return None
    if p["draft-tensor-parallel-size"] > tp:
        return None
    accepted = 0.72
    batch = soft_min(concurrency, p["max-num-seqs"])
    target = 0.034 / tp**0.85 + 0.0004 * (tp - 1) + 0.001
    draft = 0.0016 / p["draft-tensor-parallel-size"] ** 0.4 + 0.0003
    bound = batch * (guesses + 1) / (150 * tp**0.5)  # of the arithmetic: below 1 checking costs nothing
    step = target * (1 + bound**2.2) ** (1 / 2.2) + guesses * draft
    step *= {"flashinfer": 1.0, "triton": 1.07, "fa3": 0.985 + 0.0006 * batch}[p["attention-backend"]]
    step *= 0.97 if p["kv-cache-dtype"] == "fp8" and batch > 24 else 1.01 if p["kv-cache-dtype"] == "fp8" else 1.0
    tokens = (1 - accepted ** (guesses + 1)) / (1 - accepted)
    tpot = step / tokens
    output = 300
    ttft = 0.15 / tp**0.8 + 0.02 * batch / tp + max(concurrency / batch - 1, 0) * tpot * output
    return _metrics(concurrency * 2 * output / (ttft + tpot * output), tp, ttft, tpot, tail=1.6, output=output)


def _experts(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """Amdahl's law for the dense part, an all-to-all exchange for the experts, a cache that attention by dp divides."""
    tp, dp, chunk, share = p["tp-size"], p["dp-size"], p["chunked-prefill-size"], p["mem-fraction-static"]
    gpus = tp * dp
    experts_gb = 90 / gpus if p["enable-ep-moe"] else 90 / tp
    free = 96 * share - experts_gb - 24 / tp
    if free < 4 or chunk / dp * 1.6e-3 + 1.0 > 96 * (1 - share):
        return None
    batch = soft_min(concurrency, p["max-running-requests"] * dp, free * dp * tp / 0.35)
    dense = 0.012 * (0.25 + 0.75 / tp)
    exchange = 0.0007 * math.log2(tp)
    if p["enable-ep-moe"] and gpus > 1:
        exchange = 0.0009 * math.log2(gpus) + 2.2e-5 * batch
    overlap = 0.62 if p["enable-two-batch-overlap"] else 1.0
    penalty = 0.0011 if p["enable-two-batch-overlap"] else 0.0
    experts = 0.02 / (gpus**0.75 if p["enable-ep-moe"] else tp**0.75) * (1 + batch / dp / 90)
    tpot = dense + exchange * overlap + penalty + experts + 9e-5 * batch / dp
    work = 0.3 * (0.3 + 0.7 / tp) * (1 + (900 / chunk) ** 1.2 + 0.1 * chunk / 8192)
    output = 180
    ttft = work * (1 + 0.018 * batch / dp) + max(concurrency / batch - 1, 0) * tpot * output + exchange * 20 * overlap
    return _metrics(concurrency * 8 * output / (ttft + tpot * output), gpus, ttft, tpot, tail=1.4, output=output)


def _within_eight_gpus(parameters: Parameters) -> str | None:
    tp, dp = parameters["tp-size"], parameters["dp-size"]
    assert isinstance(tp, int)
    assert isinstance(dp, int)
    return f"it needs {tp * dp} GPUs, and there are 8" if tp * dp > 8 else None


HELD_OUT = (
    StandInServer(
        "scalability law",
        {
            "parameters": {
                "tensor-parallel-size": [1, 2, 4, 8],
                "max-num-seqs": [16, 32, 64, 128, 256, 512, 1024],
                "max-num-batched-tokens": [1024, 2048, 4096, 8192, 16384, 32768],
                "gpu-memory-utilization": [0.75, 0.8, 0.84, 0.88, 0.9, 0.92, 0.94, 0.97],
                "block-size": [8, 16, 32],
                "enable-prefix-caching": [True, False],
            },
            "concurrency": [32, 96, 192, 384],
            "optimization": {"objective": "maximize_throughput"},
            "slo": {"tpot": {"threshold": 0.05}, "latency": {"p99": {"threshold": 15.0, "hard_fail": True}}},
        },
        _scalability_law,
    ),
    StandInServer(
        "closed queue",
        {
            "parameters": {
                "tp-size": [1, 2, 4, 8],
                "pp-size": [1, 2, 4],
                "max-running-requests": [8, 16, 32, 64, 128, 256],
                "chunked-prefill-size": [256, 512, 1024, 2048, 4096, 8192, 16384],
                "schedule-conservativeness": [0.3, 0.5, 0.7, 0.9, 1.1, 1.3],
                "cuda-graph-max-bs": [1, 4, 16, 64, 128, 256, 512],
            },
            "concurrency": [4, 16, 48, 96],
            "optimization": {"objective": "minimize_latency"},
            "slo": {"ttft": {"threshold": 1.5}},
        },
        _closed_queue,
    ),
    StandInServer(
        "speculation",
        {
            "parameters": {
                "tensor-parallel-size": [1, 2, 4, 8],
                "draft-tensor-parallel-size": [1, 2, 4],
                "num-speculative-tokens": list(range(11)),
                "max-num-seqs": [8, 16, 32, 64, 128, 256],
                "attention-backend": ["flashinfer", "triton", "fa3"],
                "kv-cache-dtype": ["auto", "fp8"],
            },
            "concurrency": [1, 8, 32, 64],
            "optimization": {"objective": "minimize_tpot"},
            "slo": {"ttft": {"threshold": 2.0}},
        },
        _speculation,
    ),
    StandInServer(
        "experts",
        {
            "parameters": {
                "tp-size": [1, 2, 4, 8],
                "dp-size": [1, 2, 4, 8],
                "enable-ep-moe": [True, False],
                "chunked-prefill-size": [512, 1024, 2048, 4096, 8192, 16384],
                "mem-fraction-static": [0.7, 0.75, 0.8, 0.84, 0.88, 0.92, 0.95],
                "max-running-requests": [8, 16, 32, 64, 128, 256],
                "enable-two-batch-overlap": [True, False],
            },
            "concurrency": [8, 32, 128, 256],
            "optimization": {"objective": "maximize_throughput"},
            "slo": {"ttft": {"threshold": 2.0}, "tpot": {"threshold": 0.05}},
        },
        _experts,
        _within_eight_gpus,
    ),
)
