"""Servers held out later, when the first ones had been looked at: written before the search was tried on any of them.

Nothing of the search was chosen by how it does on these.
"""

import math
from typing import Any

from bench.stand_in_servers import Metrics, StandInServer
from corral.features.tuner.search.space import Parameters


def _erlang_queue(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """Replicas as servers of one queue (Erlang's C formula), each faster with more GPUs by Amdahl's law."""
    gpus, replicas, seqs = p["gpus-per-replica"], p["replicas"], p["max-num-seqs"]
    used = p["gpu-memory-utilization"]
    quantised = p["quantization"] != "none"
    weights = {"none": 54.0, "fp8": 28.0, "awq": 16.5}[p["quantization"]]
    reserve = 2.5 + p["max-num-batched-tokens"] * 3.1e-4 + (3.0 if p["cuda-graphs"] else 0.0) + 0.008 * seqs
    cache = (80 * used - weights / gpus - 1.0) * gpus
    if cache < 6 or 80 * (1 - used) < reserve:
        return None
    slots = min(seqs, cache / 0.24)
    serial = 0.09
    per_token = 0.021 * (serial + (1 - serial) / gpus) * {"none": 1.0, "fp8": 0.72, "awq": 0.62}[p["quantization"]]
    per_token += 0.0 if p["cuda-graphs"] else 0.0045
    busy = min(concurrency / replicas, slots)
    per_token *= 1 + busy / {"none": 170, "fp8": 210, "awq": 75}[p["quantization"]]
    prompt = 2200 / gpus**0.85 * (1.1e-4 if quantised else 1.5e-4) * (1 + 900 / p["max-num-batched-tokens"])
    service = prompt + 350 * per_token
    servers = max(int(replicas * slots), 1)
    offered = min(concurrency * 0.92, servers * 0.985)
    waiting = _erlang_wait(servers, offered) * service / (servers - offered)
    waiting += max(concurrency / servers - 1, 0.0) * service
    ttft = waiting + prompt * (1 + 0.02 * busy)
    latency = ttft + 350 * per_token
    return {
        "mean_total_throughput_per_gpu": concurrency * 2550 / latency / (gpus * replicas),
        "mean_ttft": ttft,
        "mean_tpot": per_token,
        "mean_e2e_latency": latency,
        "p99_e2e_latency": latency + 2.2 * waiting + 0.2,
    }


def _erlang_wait(servers: int, offered: float) -> float:
    """The chance to wait, by the recursion of Erlang's B."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def _at_most_eight(parameters: Parameters) -> str | None:
    gpus = int(parameters["gpus-per-replica"]) * int(parameters["replicas"])
    return None if gpus <= 8 else f"{gpus} GPUs, and there are 8"


def _prefix_cache(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """Prompts share prefixes: what hits the cache need not be computed, and the cache has what the batch leaves."""
    tp, fraction = p["tp"], p["mem-fraction-static"]
    room = 141 * fraction * tp - 75 - 4 * tp
    activations = 1.4 + p["chunked-prefill-size"] * 6.5e-4 / math.sqrt(tp) + 0.011 * p["cuda-graph-max-bs"]
    if room < 10 or 141 * (1 - fraction) < activations:
        return None
    batch = min(concurrency, p["max-running-requests"], room / 0.55)
    left = max(room - batch * 0.55, 0.0) * (2.0 if p["kv-cache-dtype"] == "fp8_e5m2" else 1.0)
    hit = 0.85 * (1 - math.exp(-left / 70)) * {"lpm": 1.0, "fcfs": 0.72, "dfs-weight": 0.95}[p["schedule-policy"]]
    hit *= 1 - 0.00035 * p["page-size"]
    schedule = 1.0 + {"lpm": 7e-4, "fcfs": 0.0, "dfs-weight": 4e-4}[p["schedule-policy"]] * concurrency
    new = 6000 * (1 - hit)
    compute = 2.1e-4 * new / tp**0.9 * (1 + 350 / p["chunked-prefill-size"])
    step = (0.009 + 0.02 / tp + batch * 2.3e-4 / tp + 0.0011 * math.log2(tp)) * schedule
    step *= 1.0 if batch <= p["cuda-graph-max-bs"] else 1.22
    step *= 1.035 if p["kv-cache-dtype"] == "fp8_e5m2" else 1.0
    slowed = step + batch * compute / 180 * 0.45
    ttft = compute * (1 + 0.12 * batch**0.6) + max(concurrency / batch - 1, 0.0) * 180 * slowed + 0.03
    latency = ttft + 180 * slowed
    return {
        "mean_total_throughput_per_gpu": concurrency * 6180 / latency / tp,
        "mean_ttft": ttft,
        "mean_tpot": slowed,
        "mean_e2e_latency": latency,
        "p99_e2e_latency": latency * 1.3 + 0.4 * ttft,
    }


def _two_pools(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """Prefill and decoding on GPUs of their own: the slower pool holds up the other, and caches move between them."""
    prefill, decode = p["prefill-gpus"], p["decode-gpus"]
    link = {"nixl": (0.004, 48.0), "mooncake": (0.011, 85.0), "tcp": (0.03, 9.0)}[p["transfer"]]
    if p["transfer"] == "mooncake" and p["layout"] == "nhd":
        return None
    static = p["decode-memory"]
    cache = decode * (96 * static - 3) - 88
    if cache < 8 or 96 * (1 - static) < 3.3 + 0.02 * p["decode-batch"]:
        return None
    chunk = p["prefill-chunk"]
    rate = prefill**0.93 * 21000 * chunk / (chunk + 800) / (1 + chunk / 90000) / 3000
    rate *= 1.05 if p["layout"] == "nhd" else 1.0
    moved = link[0] + 3000 * 0.00033 / link[1] * (1 + concurrency / 400)
    batch = min(concurrency, p["decode-batch"] * decode / 2, cache / 0.9)
    step = 0.006 + 0.06 / decode**0.88 + 0.0022 * batch / decode + 0.0004 * decode
    out = batch / (260 * step)
    through = (rate**-5 + out**-5 + (1 / (moved * 0.4)) ** -5) ** (-1 / 5)
    alone = 3000 / 21000 / prefill**0.6 * (1 + 500 / chunk) + moved + 260 * step
    latency = (alone**4 + (concurrency / through) ** 4) ** 0.25
    ttft = latency - 260 * step * 0.97
    return {
        "mean_total_throughput_per_gpu": concurrency * 3260 / latency / (prefill + decode),
        "mean_ttft": max(ttft, 0.02),
        "mean_tpot": step,
        "mean_e2e_latency": latency,
        "p99_e2e_latency": 1.2 * latency + 0.5,
    }


def _compute_or_memory(p: dict[str, Any], concurrency: int) -> Metrics | None:
    """The harder roofline: a step takes what computing or what reading takes, whichever is more."""
    tp, pp, kv = p["tensor-parallel"], p["pipeline-parallel"], p["kv-cache-dtype"]
    each_gb = 80 * p["gpu-memory-utilization"] - 145 / (tp * pp)
    held = 80 * (1 - p["gpu-memory-utilization"])
    if each_gb < 1.5 or held < 1.9 + p["max-batched-tokens"] * 4.4e-4 / tp**0.5 + (1.6 if pp > 1 else 0):
        return None
    kv_gb = 1600 * (0.31 if kv == "auto" else 0.16) / 1024
    batch = min(concurrency, p["max-seqs"], each_gb * tp * pp / kv_gb)
    tokens = min(p["max-batched-tokens"], batch * (1 + 1250 / 330))
    compute = tokens * 140e9 / (tp * pp * (5.2e14 if p["compile"] else 4.3e14))
    memory = (140 / pp + batch * kv_gb) / (tp * 2700) * (1.0 if p["backend"] == "flashinfer" else 1.07)
    memory *= 1.1 if kv != "auto" and p["backend"] == "flash-attn" else 1.0
    talk = 80 / pp * 2 * (9e-6 * math.log2(tp) + 3e-8 * tokens * (tp - 1) / tp) + (pp - 1) * 0.0013
    step = max(compute, memory) + talk + (0.0015 if p["compile"] else 0.003)
    step *= pp**0.25
    # What does not fit the tokens of a step goes into more of them.
    stretched = 330 * step * max(batch * (1 + 1250 / 330) / p["max-batched-tokens"], 1.0)
    ttft = (
        1250 * 1.6e-4 / tp * (1 + p["max-batched-tokens"] / 40000) + step + max(concurrency / batch - 1, 0) * stretched
    )
    latency = ttft + stretched
    return {
        "mean_total_throughput_per_gpu": concurrency * 1580 / latency / (tp * pp),
        "mean_ttft": ttft,
        "mean_tpot": stretched / 330,
        "mean_e2e_latency": latency,
        "p99_e2e_latency": 1.35 * latency,
    }


LATER_HELD_OUT = (
    StandInServer(
        "Erlang's queue",
        {
            "parameters": {
                "gpus-per-replica": [1, 2, 4, 8],
                "replicas": [1, 2, 4, 8],
                "max-num-seqs": [16, 32, 64, 96, 128, 256],
                "gpu-memory-utilization": [0.75, 0.8, 0.85, 0.88, 0.9, 0.92, 0.94, 0.96],
                "max-num-batched-tokens": [1024, 2048, 4096, 8192, 16384],
                "quantization": ["none", "fp8", "awq"],
                "cuda-graphs": [True, False],
            },
            "concurrency": [8, 32, 128, 256],
            "optimization": {"objective": "maximize_throughput"},
            "slo": {"tpot": {"threshold": 0.03}, "latency": {"p99": {"threshold": 30, "hard_fail": True}}},
        },
        _erlang_queue,
        _at_most_eight,
    ),
    StandInServer(
        "prefix cache",
        {
            "parameters": {
                "tp": [1, 2, 4, 8],
                "mem-fraction-static": [0.7, 0.75, 0.8, 0.84, 0.88, 0.91, 0.94, 0.96],
                "chunked-prefill-size": [1024, 2048, 4096, 8192, 16384],
                "max-running-requests": [16, 32, 48, 64, 128, 256],
                "cuda-graph-max-bs": [16, 64, 160, 256],
                "kv-cache-dtype": ["auto", "fp8_e5m2"],
                "schedule-policy": ["lpm", "fcfs", "dfs-weight"],
                "page-size": [1, 16, 64],
            },
            "concurrency": [4, 24, 96, 192],
            "optimization": {"objective": "minimize_latency"},
            "slo": {"ttft": {"threshold": 4.0}},
        },
        _prefix_cache,
    ),
    StandInServer(
        "two pools",
        {
            "parameters": {
                "prefill-gpus": [1, 2, 3, 4, 6, 8],
                "decode-gpus": [1, 2, 4, 6, 8],
                "transfer": ["tcp", "nixl", "mooncake"],
                "layout": ["nhd", "hnd"],
                "prefill-chunk": [512, 1024, 2048, 4096, 8192, 16384],
                "decode-batch": [16, 32, 64, 128, 256],
                "decode-memory": [0.75, 0.8, 0.85, 0.9, 0.93, 0.96],
            },
            "concurrency": [8, 32, 96, 256],
            "optimization": {"objective": "maximize_throughput"},
            "slo": {"tpot": {"threshold": 0.05}},
        },
        _two_pools,
    ),
    StandInServer(
        "compute or memory",
        {
            "parameters": {
                "tensor-parallel": [1, 2, 4, 8],
                "pipeline-parallel": [1, 2, 4],
                "gpu-memory-utilization": [0.8, 0.84, 0.87, 0.9, 0.92, 0.94, 0.96],
                "max-batched-tokens": [512, 1024, 2048, 4096, 8192, 16384],
                "max-seqs": [16, 32, 64, 128, 256],
                "kv-cache-dtype": ["auto", "fp8"],
                "backend": ["flash-attn", "flashinfer"],
                "compile": [True, False],
            },
            "concurrency": [4, 32, 128, 256],
            "optimization": {"objective": "maximize_throughput"},
            "slo": {"ttft": {"threshold": 2.5}, "tpot": {"threshold": 0.06}},
        },
        _compute_or_memory,
    ),
)
