"""Builds the records of an experiment's GPUs: their identity, and their readings during the measurements. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from corral.core.model.answers.job_details import JobDetail
from corral.features.history.answers import GpuWindow
from corral.features.history.monitoring import monitoring_of
from corral.features.tuner.measuring.energy import energy_figures, energy_j
from corral.wire import from_plain, to_plain

_KEPT = ("utilization_pct", "memory_used_mib", "temperature_c", "power_w", "sm_clock_mhz", "throttle")
"""The series that a level keeps of each GPU. A record has a limit of size, and may have many levels and GPUs."""

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


def windows_of_level(level: Mapping[str, Any]) -> list[GpuWindow]:
    """Return the GPUs of a level; none if an earlier version of the tuner measured it."""
    return [from_plain(GpuWindow, gpu, field=_GPUS) for gpu in level.get(_GPUS, ())]
