"""`corral estimate`: the GPU memory that a language model needs, and the GPUs here that have it."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from corral.cli.commands import measuring
from corral.cli.local.check import parse_dtype
from corral.cli.screen import painted, print_json, width, wrapped, write_painted
from corral.client import Client, DeviceRow, NoServer
from corral.core.model.errors import Refused
from corral.core.model.units import count_of, format_memory

if TYPE_CHECKING:
    from corral.core.preflight.estimate import Estimate, InferenceSetup

MOST_RANKS = 64
"""The largest tensor parallel size that is suggested."""


def estimate(given: measuring.EstimateCommand) -> None:
    """Run `corral estimate`."""
    from corral.core.preflight.estimate import InferenceSetup, estimate_local, estimate_named, parse_context
    from corral.core.preflight.model_source import find_model

    load = InferenceSetup(
        tensor_parallel=given.tp,
        pipeline_parallel=given.pp,
        dtype=None if given.dtype is None else parse_dtype(given.dtype),
        cache_dtype=None if given.kv_dtype is None else parse_dtype(given.kv_dtype, "--kv-dtype"),
        context=None if given.context is None else parse_context(given.context),
        batch=given.batch,
    )
    local = find_model(given.model, os.environ, Path.cwd())

    def of(wanted: "InferenceSetup") -> "Estimate":
        found = estimate_local(local, wanted) if local else estimate_named(given.model, wanted)
        if isinstance(found, str):
            raise Refused(f"MODEL: {found}; give its directory, or its name as it is at the hub", field="model")
        return found

    result, devices = of(load), _devices()
    if given.json:
        holding = None if devices is None else [device.uuid for device in _holding(devices, result, load)]
        print_json({**asdict(result), "total_mib": result.total_mib, "gpus": load.world_size, "holding": holding})
        return
    lines = estimate_lines(result, load)
    if devices is not None:
        lines += wrapped(holding_line(of, load, devices), width())
    if local is not None and local.shape.heads % given.tp:
        lines += wrapped(
            f"its {local.shape.heads} attention heads cannot be split over --tp {given.tp} evenly", width()
        )
    lines += wrapped(f"from {result.source}", width())
    write_painted(*lines)


def estimate_lines(result: "Estimate", load: "InferenceSetup") -> list[str]:
    """The lines for the parts and the sum."""
    where = "on one GPU" if load.world_size == 1 else f"on each of {load.world_size} GPUs"
    sequences = count_of(result.batch, "sequence")
    return [
        f"{format_memory(result.weights_mib):>8}  weights",
        f"{format_memory(result.cache_mib):>8}  key-value cache of {sequences} of {result.context} tokens",
        f"{format_memory(result.activations_mib):>8}  activations",
        f"{format_memory(result.overhead_mib):>8}  overhead",
        painted(f"{format_memory(result.total_mib):>8}  total, {where}", "bold"),
    ]


def holding_line(
    of: "Callable[[InferenceSetup], Estimate]", load: "InferenceSetup", devices: Sequence[DeviceRow]
) -> str:
    """Return which GPUs have enough memory, or what would do if they are too few."""
    able = _holding(devices, of(load), load)
    if len(able) >= load.world_size and len({device.node for device in able}) > 1:
        # Nodes number their GPUs from 0 each.
        of_models = Counter(device.name for device in able)
        counted = ", ".join(f"{count} {model}" for model, count in of_models.items())
        return f"{len(able)} GPUs here have enough memory: {counted}"
    if len(able) >= load.world_size:
        models = ", ".join(dict.fromkeys(device.name for device in able))
        return f"GPUs here with enough memory: {', '.join(str(device.index) for device in able)} ({models})"
    if able:
        return f"{count_of(len(able), 'GPU')} here have enough memory, but {load.world_size} are needed"
    largest = max((device.memory_total_mib or 0 for device in devices if not device.sliced), default=0)
    ranks = load.tensor_parallel
    while of(replace(load, tensor_parallel=ranks)).total_mib > largest and ranks <= MOST_RANKS:
        ranks *= 2
    advice = f"try --tp {ranks}" if ranks <= MOST_RANKS else f"even --tp {MOST_RANKS} is not enough"
    return f"no GPU here has enough memory: the largest has {format_memory(largest)}; {advice}"


def _holding(devices: Sequence[DeviceRow], result: "Estimate", load: "InferenceSetup") -> list[DeviceRow]:
    """The devices with enough memory. MIG slices count only for a single rank, as slices cannot work together."""
    return [
        device
        for device in devices
        if not device.sliced
        and (device.mig_profile is None or load.world_size == 1)
        and (device.memory_total_mib or 0) >= result.total_mib
    ]


def _devices() -> tuple[DeviceRow, ...] | None:
    """The devices of the server; None if no server answers."""
    try:
        with Client() as client:
            return client.devices.list()
    except NoServer:
        return None
