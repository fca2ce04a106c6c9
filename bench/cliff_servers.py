"""More servers that the search was developed on: their optimum lies beside a cliff, on a flat ridge, or in a corner
that a few values open only together."""

import math
from typing import Any

from bench.stand_in_servers import Metrics, StandInServer

GPU_GB = 80.0


def _metrics(throughput: float, gpus: int, ttft: float, tpot: float, latency: float) -> Metrics:
    return {
        "mean_total_throughput_per_gpu": throughput / gpus,
        "mean_ttft": ttft,
        "mean_tpot": tpot,
        "mean_e2e_latency": latency,
        "p99_e2e_latency": 1.5 * latency,
    }


def _graphs(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """Captured graphs, the chunk and the cache share a GPU's memory: whoever asks for a little too much does not start.

    More cache means larger batches, so the best ones use all memory but what graphs and the chunk need.
    """
    tp, chunk, graphs = p["tp"], p["chunk"], p["graph-batch"]
    weights = 64.0 if p["dtype"] == "bf16" else 34.0
    cache = GPU_GB * p["memory"] - weights / tp
    left = GPU_GB * (1 - p["memory"])
    if cache < 3 or left < 0.9 + chunk * 0.55e-3 + graphs * 0.017 + 0.6 * math.log2(tp):
        return None
    room = cache * tp / 0.28
    batch = min(concurrency, p["max-seqs"], room)
    eager = max(batch - graphs, 0) / batch
    step = 0.004 + weights / tp / 1900 + batch * 0.28 / tp / 1900 + 0.0007 * math.log2(tp) + 0.006 * eager
    step *= 1.04 if p["dtype"] == "fp8" else 1.0
    prefill = 1500 * weights * 0.9e-12 / tp * 1e9 / 450 * (1 + (180 / chunk) ** 0.8) + 0.004
    busy = step + batch / 300 * prefill * (1 + chunk / 30000)
    waiting = max(concurrency - batch, 0) / batch * 300 * busy
    ttft = prefill + waiting + 0.02
    latency = ttft + 300 * busy
    return _metrics(concurrency * 1800 / latency, tp, ttft, busy, latency)


def _backends(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """Kernels that go with some layouts and types of the cache alone; replicas against tensor parallelism."""
    tp, dp, kernel, kv = p["tp"], p["dp"], p["attention"], p["kv"]
    gpus = tp * dp
    if gpus > 16 or (kernel == "mla" and p["page"] != 64) or (kernel == "triton" and kv == "fp8"):
        return None
    speed = {"flash": 1.0, "triton": 0.9, "mla": 1.16 if kv == "fp8" else 0.97}[kernel]
    if GPU_GB * p["memory"] * tp < 105 or p["memory"] > 0.94 - 0.012 * math.log2(p["prefill"] / 1024):
        return None
    each = concurrency / dp
    cached = (GPU_GB * p["memory"] * tp - 100) / (0.16 if kv == "fp8" else 0.3) * (1 - p["page"] / 1500)
    batch = min(each, cached, 256)
    expert = 1.0 + 0.35 / tp + (0.1 * math.log2(dp) if p["expert-parallel"] else 0.25 * (dp > 1))
    step = (0.007 + 0.032 * expert / tp**0.75 + batch * 1.1e-4 / tp) / speed
    prefill = 0.35 / tp**0.8 / speed * (1 + 700 / p["prefill"]) + 1.5e-6 * p["prefill"]
    ttft = prefill * (1 + 0.3 * batch**0.5) + max(each / batch - 1, 0) * 400 * step
    latency = ttft + 400 * (step + batch / 400 * prefill * 0.25)
    return _metrics(concurrency * 2400 / latency, gpus, ttft, latency / 400, latency)


def _ridge(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """What counts are products of parameters, so that many combinations are nearly as good, and few are best.

    A budget of tokens in a step is shared by prefill and decoding; beyond the watermark requests are put off again.
    """
    tokens, seqs, delay = p["step-tokens"], p["max-seqs"], p["delay"]
    blocks = 42000 * (p["memory"] - 0.52) / (p["block"] / 16) ** 0.12
    if blocks < 8000 or p["memory"] > 0.955 - 0.9e-6 * tokens * math.sqrt(seqs / 16) or tokens < seqs:
        return None
    used = min(seqs, concurrency) * 1400 / 16
    over = max(used / (blocks * (1 - p["watermark"])) - 1, 0.0)
    batch = min(concurrency, seqs) / (1 + 0.7 * over)
    share = (tokens - batch) / tokens
    step = 0.013 + 1.1e-6 * tokens + 7.5e-5 * batch + (0.0012 if p["block"] == 8 else 0.0)
    step *= {"ngram": 0.94 + 0.002 * batch, "off": 1.0, "draft": 0.8 + 0.005 * batch}[p["speculation"]]
    prefill = 1100 / max(share * tokens, 32) * step
    ttft = prefill * (1 + 0.1 * batch / (1 + 10 * delay)) + delay * 0.6 + max(concurrency / batch - 1, 0) * 220 * step
    latency = ttft + 220 * step * (1 + 0.25 * over + batch * prefill / (220 * step) * 0.05)
    return _metrics(concurrency * 1320 / latency, 1, ttft, step, latency)


CLIFFS = (
    StandInServer(
        "graphs, throughput",
        {
            "parameters": {
                "tp": [1, 2, 4, 8],
                "memory": [0.7, 0.75, 0.8, 0.84, 0.88, 0.91, 0.94, 0.97],
                "chunk": [512, 1024, 2048, 4096, 8192, 16384],
                "graph-batch": [8, 32, 64, 128, 256, 512],
                "max-seqs": [16, 32, 64, 128, 256],
                "dtype": ["bf16", "fp8"],
            },
            "concurrency": [8, 48, 160, 320],
            "optimization": {"objective": "maximize_throughput"},
            "slo": {"ttft": {"threshold": 2.0, "hard_fail": True}},
        },
        _graphs,
    ),
    StandInServer(
        "backends, latency",
        {
            "parameters": {
                "tp": [2, 4, 8, 16],
                "dp": [1, 2, 4],
                "attention": ["flash", "triton", "mla"],
                "kv": ["auto", "fp8"],
                "page": [1, 16, 32, 64],
                "memory": [0.75, 0.8, 0.85, 0.88, 0.91, 0.94],
                "prefill": [1024, 2048, 4096, 8192, 16384],
                "expert-parallel": [True, False],
            },
            "concurrency": [4, 32, 128, 512],
            "optimization": {"objective": "minimize_latency"},
            "slo": {"tpot": {"threshold": 0.06}},
        },
        _backends,
    ),
    StandInServer(
        "ridge, throughput",
        {
            "parameters": {
                "memory": [0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95],
                "step-tokens": [256, 512, 1024, 2048, 4096, 8192, 16384],
                "max-seqs": [16, 32, 64, 128, 256, 512],
                "block": [8, 16, 32],
                "watermark": [0.01, 0.05, 0.1],
                "delay": [0.0, 0.2, 0.5],
                "speculation": ["off", "ngram", "draft"],
            },
            "concurrency": [16, 64, 192, 384],
            "optimization": {"objective": "maximize_throughput"},
            "slo": {"tpot": {"threshold": 0.035}, "ttft": {"threshold": 3.0, "hard_fail": True, "fail_ratio": 1.0}},
        },
        _ridge,
    ),
)
