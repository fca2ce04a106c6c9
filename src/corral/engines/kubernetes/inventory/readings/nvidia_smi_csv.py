"""Reads the output of `nvidia-smi` in a pod about the GPUs of the pod. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from corral.engines.kubernetes.inventory.occupants import PodName
from corral.engines.kubernetes.inventory.readings.gpu_reading import MOST_GPUS, GpuReading, measured

COMMAND = (
    "nvidia-smi",
    "--query-gpu=uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,clocks.sm",
    "--format=csv,noheader,nounits",
)
"""The command; it gives percent, MiB twice, degrees Celsius, watts and MHz.

Indices are left out: they count within the pod.
"""


def readings_of_nvidia_smi(texts: Iterable[tuple[PodName, str]]) -> tuple[GpuReading, ...]:
    """Return the GPUs that the pods of one node see, each once, numbered by UUID. Invalid lines are left out.

    A GPU belongs to the pod that sees it. A GPU that several pods see belongs to none.
    """
    found: dict[str | None, GpuReading] = {}
    for pod, text in texts:
        for reading in filter(None, map(_reading, text.splitlines()[:MOST_GPUS])):
            alone = reading.uuid not in found or found[reading.uuid].pod == pod
            found[reading.uuid] = replace(reading, pod=pod if alone else None)
    return tuple(replace(found[uuid], index=number) for number, uuid in enumerate(sorted(found, key=str)))


def _reading(line: str) -> GpuReading | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 7 or not cells[0].startswith(("GPU-", "MIG-")):
        return None
    used_pct, used, total, temperature, power_w, clock_mhz = map(measured, cells[1:])
    return GpuReading(
        0,
        cells[0],
        used_pct if used_pct is not None and used_pct <= 100 else None,
        None if used is None else round(used),
        None if total is None else round(total),
        temperature,
        power_w=power_w,
        sm_clock_mhz=clock_mhz,
    )
