"""Builds the records of an experiment's GPUs: their identity, and their readings during the measurements. Pure."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from corral.core.model.answers.job_details import JobDetail
from corral.features.history.answers import GpuWindow
from corral.features.history.monitoring import monitoring_of, series_of_readings
from corral.features.history.recording.series import SERIES, DeviceReadings
from corral.features.tuner.measuring.energy import energy_figures, energy_j
from corral.features.tuner.measuring.gpu_sampler import ReadGpus
from corral.wire import from_plain, to_plain

_KEPT = ("utilization_pct", "memory_used_mib", "temperature_c", "power_w", "sm_clock_mhz", "throttle")
"""The series that a level keeps of each GPU. A record has a limit of size, and may have many levels and GPUs."""

_CHARTED = ("utilization_pct", "memory_used_mib", "temperature_c", "power_w")
_MOST_LINES, _MOST_STEPS = 16, 30
"""The most lines of a chart that a level keeps, and their points, where no history has them."""

_DURATION, _GPUS = "measured_s", "gpus"

_BETWEEN_MODELS = " + "
"""Between the models of an experiment that got GPUs of several."""


def gpu_info_of(job: JobDetail, gpus: int) -> dict[str, Any] | None:
    """Return the GPUs of a job in the form that autotuners use, None if it has none.

    `nodes` has those of each member, by rank.
    """
    if not job.grant:
        return None
    return {
        "model": _BETWEEN_MODELS.join(dict.fromkeys(one.name for one in job.grant if one.name)) or None,
        "count": len(job.grant),
        "device_ids": [granted.uuid for granted in job.grant],
        "world_size": gpus,
        "gpu_info": job.gpu_info,
        "nodes": [
            {
                "node": member.node,
                "device_ids": list(member.devices),
                "indices": [one.index for one in job.grant if one.rank == member.rank],
            }
            for member in job.members
        ],
    }


def gpus_of_level(duration_s: float, gpus: Sequence[GpuWindow]) -> dict[str, Any]:
    """Return the readings of the GPUs during a level of load, as a part of its figures; empty without any reading."""
    kept = [
        GpuWindow(gpu.label, gpu.name, gpu.memory_mib, {name: gpu.series[name] for name in _KEPT if name in gpu.series})
        for gpu in gpus
    ]
    return {_DURATION: duration_s, _GPUS: to_plain(kept)} if any(gpu.series for gpu in kept) else {}


def windows_of(read: ReadGpus, window: tuple[float, float]) -> list[GpuWindow]:
    """Return the sums of readings within a window."""
    return [GpuWindow(*gpu, series_of_readings(readings, window)) for gpu, readings in read.items()]


def course_of(read: ReadGpus, window: tuple[float, float]) -> dict[str, Any]:
    """Return means of the readings within a window over time, as a part of a level's figures; empty without any.

    `means` has for each GPU and series the number of a step of `step_s` with its mean. A step is no shorter than the
    interval of the readings, so that a missing one is a gap.
    """
    since, until = window
    intervals_s = [one.covered_s for readings in read.values() for one in readings]
    if not intervals_s or len(read) > _MOST_LINES:
        return {}
    step_s = math.ceil(max((until - since) / _MOST_STEPS, *intervals_s, 1.0))
    gpus = [
        {"label": gpu.label, "name": gpu.name, "memory_mib": gpu.memory_mib, "means": _means(readings, since, step_s)}
        for gpu, readings in read.items()
    ]
    return {"gpu_course": {"from": since, "to": until, "step_s": step_s, "gpus": gpus}}


def _means(readings: Sequence[DeviceReadings], since: float, step_s: int) -> dict[str, list[list[float]]]:
    found = {}
    for name in _CHARTED:
        steps: dict[int, list[float]] = {}
        for one in readings:
            if (value := one.values[SERIES.index(name)]) is not None:
                steps.setdefault(int((one.at - since) // step_s), []).append(value)
        found[name] = [[step, round(fmean(values), 1)] for step, values in sorted(steps.items())]
    return {name: means for name, means in found.items() if means}


def members_in(gpu_info: Mapping[str, Any] | None) -> int:
    """Return the number of members in the record of an experiment's GPUs; 1 if that is not known.

    Anybody with access to the task may have written the record.
    """
    nodes = (gpu_info or {}).get("nodes")
    return len(nodes) if isinstance(nodes, list) and nodes else 1


def model_in(gpu_info: Mapping[str, Any] | None) -> str | None:
    """Return the model of the GPUs in the record of an experiment, None if it is not known."""
    model = (gpu_info or {}).get("model")
    return model if isinstance(model, str) and model else None


def models_in(gpu_info: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the same as a tuple, of several models if an experiment got GPUs of several; () if none is known."""
    model = model_in(gpu_info)
    return () if model is None else tuple(model.split(_BETWEEN_MODELS))


def figures_of_gpus(levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `gpu_monitoring` and the energy over levels with `gpus_of_level`; nothing that was not measured."""
    windows = [windows_of_level(level) for level in levels]
    joules = [energy_j(level.get(_DURATION, 0.0), gpus) for level, gpus in zip(levels, windows, strict=True)]
    monitoring = monitoring_of(windows)
    return energy_figures(levels, joules) | ({} if monitoring is None else {"gpu_monitoring": to_plain(monitoring)})


def energy_of_level(level: Mapping[str, Any]) -> dict[str, float]:
    """Return the energy of one level with `gpus_of_level`, and that of a token; nothing that was not measured."""
    return energy_figures([level], [energy_j(level.get(_DURATION, 0.0), windows_of_level(level))])


def windows_of_level(level: Mapping[str, Any]) -> list[GpuWindow]:
    """Return the GPUs of a level; none if an earlier version of the tuner measured it."""
    return [from_plain(GpuWindow, gpu, field=_GPUS) for gpu in level.get(_GPUS, ())]
