"""Routes for the clients of another autotuner about the site: presets, server flags, GPUs and the server's health."""

from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import corral
from corral.api.answers.responses import gives, gives_many
from corral.api.route_table import RouteTable
from corral.api.routing import AppState, RequestContext, answer
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.errors import NotFound, nearest
from corral.core.model.utc_time import utc_time
from corral.features.tuner.model.tuning_spec import DeploymentMode
from corral.features.tuner.other_names.answers import (
    AutotunerCatalog,
    AutotunerCluster,
    AutotunerGpu,
    AutotunerGpus,
    AutotunerHealth,
    AutotunerPreset,
    AutotunerSystem,
    RuntimeCompatibility,
    RuntimeCounts,
    RuntimeParameters,
)
from corral.features.tuner.other_names.catalog import catalog

router = RouteTable("autotuner, by other names", prefix="/api")


@router.get("/presets")
@router.get("/presets/", answers=gives_many(AutotunerPreset))
async def presets(request: Request, context: RequestContext) -> Response:
    """List the presets of `parallel_config` and `quant_config`."""
    return await _of_catalog(lambda known: known.presets)


@router.get("/presets/{preset_id}", answers=gives(AutotunerPreset))
async def preset(request: Request, context: RequestContext, preset_id: str) -> Response:
    """Tell of a preset."""
    return await _of_catalog(lambda known: _preset(known, preset_id))


@router.get("/runtime-params")
@router.get("/runtime-params/", answers=gives(RuntimeCounts))
async def runtime_counts(request: Request, context: RequestContext) -> Response:
    """Tell how many flags are known of each inference server."""
    return await _of_catalog(_counts)


@router.get("/runtime-params/compatibility", answers=gives(RuntimeCompatibility))
async def runtime_compatibility(request: Request, context: RequestContext) -> Response:
    """Tell which flags both inference servers have."""
    return await _of_catalog(_compatibility)


@router.get("/runtime-params/{runtime}", answers=gives(RuntimeParameters))
async def runtime_parameters(request: Request, context: RequestContext, runtime: str) -> Response:
    """List the flags that are known of an inference server."""
    return await _of_catalog(lambda known: _parameters(known, runtime))


@router.get("/dashboard/gpu-status", answers=gives(AutotunerGpus))
async def gpu_status(request: Request, context: RequestContext) -> Response:
    """List the GPUs with their present readings."""
    return await _of_gpus(request, context.service.queries.devices, _gpus)


@router.get("/dashboard/cluster-gpu-status", answers=gives(AutotunerCluster))
async def cluster_gpu_status(request: Request, context: RequestContext) -> Response:
    """List the GPUs of all nodes, and how many a job may have now."""
    return await _of_gpus(request, context.service.queries.devices, _cluster)


@router.get("/system/health", answers=gives(AutotunerHealth))
async def health(request: Request, context: RequestContext) -> Response:
    """Tell that the server answers."""
    return await answer(lambda: AutotunerHealth("healthy", "ok", "not used"))


@router.get("/system/info", answers=gives(AutotunerSystem))
async def info(request: Request, context: RequestContext) -> Response:
    """Describe this server."""

    def told(known: AutotunerCatalog) -> AutotunerSystem:
        return AutotunerSystem("Corral", corral.__version__, DeploymentMode.DOCKER, tuple(known.flags), "UTC")

    return await _of_catalog(told)


def _preset(known: AutotunerCatalog, preset_id: str) -> AutotunerPreset:
    for one in known.presets:
        if str(one.id) == preset_id:
            return one
    raise NotFound(f"there is no preset {preset_id!r:.40}; GET /api/presets/ lists them", field="preset_id")


def _counts(known: AutotunerCatalog) -> RuntimeCounts:
    sglang, vllm = set(known.flags["sglang"]), set(known.flags["vllm"])
    return RuntimeCounts(len(sglang), len(vllm), len(sglang & vllm))


def _compatibility(known: AutotunerCatalog) -> RuntimeCompatibility:
    sglang, vllm = set(known.flags["sglang"]), set(known.flags["vllm"])
    parts = {"common": sglang & vllm, "sglang_only": sglang - vllm, "vllm_only": vllm - sglang}
    counts = {f"{name}_count": len(flags) for name, flags in parts.items()}
    totals = {"sglang_total": len(sglang), "vllm_total": len(vllm)}
    return RuntimeCompatibility(**{name: tuple(sorted(flags)) for name, flags in parts.items()}, stats=counts | totals)


def _parameters(known: AutotunerCatalog, runtime: str) -> RuntimeParameters:
    flags = known.flags.get(runtime)
    if flags is None:
        raise NotFound(f"there is no runtime {runtime!r:.40}; {nearest(runtime, known.flags)}", field="runtime")
    return RuntimeParameters(runtime, len(flags), flags)


def _gpus(rows: Sequence[DeviceRow], timestamp: str) -> AutotunerGpus:
    gpus = tuple(map(_gpu, rows))
    return AutotunerGpus(any(gpu.has_metrics for gpu in gpus), gpus, timestamp)


def _cluster(rows: Sequence[DeviceRow], timestamp: str) -> AutotunerCluster:
    gpus = tuple(map(_gpu, rows))
    allocatable = sum(gpu.allocatable for gpu in gpus)
    return AutotunerCluster(any(gpu.has_metrics for gpu in gpus), "cluster", gpus, len(gpus), allocatable, timestamp)


def _gpu(row: DeviceRow) -> AutotunerGpu:
    used, total = row.memory_used_mib, row.memory_total_mib
    return AutotunerGpu(
        index=row.index,
        node_name=row.node,
        uuid=row.uuid,
        name=row.name,
        memory_total_mb=total,
        memory_used_mb=used,
        memory_free_mb=row.memory_free_mib,
        memory_usage_percent=round(100 * used / total, 1) if used is not None and total else None,
        utilization_percent=row.utilization_pct,
        temperature_c=row.temperature_c,
        power_draw_w=row.power_w,
        score=row.availability,
        capacity=1,
        allocatable=int(row.state == "free"),
        has_metrics=row.utilization_pct is not None,
    )


async def _of_catalog(make: Callable[[AutotunerCatalog], Any]) -> Response:
    return await answer(lambda: make(catalog()))


async def _of_gpus(
    request: Request, devices: Callable[[], Sequence[DeviceRow]], make: Callable[[Sequence[DeviceRow], str], Any]
) -> Response:
    state: AppState = request.app.state.corral
    clock = state.events.clock
    return await answer(lambda: make(devices(), utc_time(clock.shown(clock.now()))))
