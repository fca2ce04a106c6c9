"""Builds the records of an experiment's GPUs: their identity, and their readings during the measurements. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from corral.core.model.answers.job_details import JobDetail
from corral.features.history.answers import HistoryPoint, JobGpuHistory

_SERIES = {
    "utilization": "utilization_pct",
    "memory_used_mb": "memory_used_mib",
    "temperature_c": "temperature_c",
    "power_draw_w": "power_w",
}


_BETWEEN_MODELS = " + "
"""Between the models of an experiment that got GPUs of several."""


def gpu_info_of(job: JobDetail, gpus: int) -> dict[str, Any] | None:
    """Return the GPUs of a job in the form that autotuners use, None if it has none."""
    if not job.grant:
        return None
    return {
        "model": _BETWEEN_MODELS.join(dict.fromkeys(one.name for one in job.grant if one.name)) or None,
        "count": len(job.grant),
        "device_ids": [granted.uuid for granted in job.grant],
        "world_size": gpus,
        "gpu_info": job.gpu_info,
    }


def model_in(gpu_info: Mapping[str, Any] | None) -> str | None:
    """Return the model of the GPUs in the record of an experiment, None if it is not known."""
    model = (gpu_info or {}).get("model")
    return model if isinstance(model, str) and model else None


def models_in(gpu_info: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the same as a tuple, of several models if an experiment got GPUs of several; () if none is known."""
    model = model_in(gpu_info)
    return () if model is None else tuple(model.split(_BETWEEN_MODELS))


def whole_seconds(window: tuple[float, float]) -> tuple[int, int] | None:
    """Return (start, end) of the whole seconds within a window (Unix seconds), None if there are none."""
    since, until = math.ceil(window[0]), math.floor(window[1])
    return (since, until) if since < until else None


def monitoring_of_windows(windows: Sequence[Sequence[JobGpuHistory]]) -> dict[str, Any] | None:
    """Return `gpu_monitoring` over several windows, each with the history of every GPU; None without readings."""
    points: dict[str, dict[str, list[HistoryPoint]]] = {}
    known: dict[str, JobGpuHistory] = {}
    for window in windows:
        for gpu in window:
            known[gpu.label] = gpu
            for name, read in gpu.series.items():
                points.setdefault(gpu.label, {}).setdefault(name, []).extend(read)
    stats = {label: _stats(known[label], series) for label, series in points.items()}
    counts = [len(read) for series in points.values() for read in series.values()]
    if not counts:
        return None
    return {
        "monitoring_duration_seconds": float(max(counts)),
        "sample_count": max(counts),
        "gpu_stats": {label: found for label, found in stats.items() if found},
    }


def _stats(gpu: JobGpuHistory, series: Mapping[str, Sequence[HistoryPoint]]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": gpu.name}
    for name, of_history in _SERIES.items():
        if read := series.get(of_history):
            found[name] = _range(read)
    if "utilization" in found:
        found["utilization"]["samples"] = len(series["utilization_pct"])
    if gpu.memory_mib and "memory_used_mb" in found:
        used = found["memory_used_mb"]
        found["memory_usage_percent"] = {key: round(100 * mib / gpu.memory_mib, 2) for key, mib in used.items()}
    return found


def _range(points: Sequence[HistoryPoint]) -> dict[str, float]:
    weight = sum(point.coverage for point in points)
    mean = sum(point.mean * point.coverage for point in points) / weight
    return {
        "min": round(min(point.min for point in points), 2),
        "max": round(max(point.max for point in points), 2),
        "mean": round(mean, 2),
    }
