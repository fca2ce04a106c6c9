"""The sources under the contract, each with a hand on its hardware: tests say what happens to a GPU, not how."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from corral.clock import ManualClock
from corral.core.ports.telemetry import Source
from corral.host.telemetry.discover import AnyDriver
from corral.host.telemetry.mock import MockSource
from corral.vendors.nvidia import NVIDIA
from corral.vendors.nvidia.nvidia_smi import NvidiaSmiSource
from corral.vendors.nvidia.nvml import NvmlSource
from corral.vendors.vendor import DriverLibrary, DriverSource
from tests.vendors.nvidia.nvml_stub import NvmlStub

NOW = 1_700_000_000.0
RETRY_S = 61.0
"""After so long every source has looked again for a device that was lost."""


@dataclass
class Gpu:
    """What a GPU of a rig does."""

    utilization_pct: int | None = 0
    used_mib: int = 0
    power_w: int | None = 60
    processes: tuple[tuple[int, int], ...] = ()
    lost: bool = False


@dataclass
class Rig:
    """A source and its hardware; `apply` makes the hardware do what `gpus` say."""

    source: Source
    clock: ManualClock
    apply_to: Callable[[list[Gpu]], None]
    gpus: list[Gpu] = field(default_factory=lambda: [Gpu() for _ in range(3)])

    def apply(self) -> None:
        self.apply_to(self.gpus)


class RigMaker(Protocol):
    """Makes a rig with three idle GPUs."""

    def __call__(self) -> Rig: ...


def through(name: str, driver: DriverSource, clock: ManualClock) -> Source:
    """A host's source that has this driver and no other."""
    maker = replace(NVIDIA, libraries=(DriverLibrary(name, lambda *_: driver),))
    return AnyDriver(clock, makers={maker.name: maker})


def mock_rig(path: Path) -> Rig:
    def apply(gpus: list[Gpu]) -> None:
        rows = []
        for i, gpu in enumerate(gpus):
            unreadable = [
                name
                for name, value in (("utilization_pct", gpu.utilization_pct), ("power_w", gpu.power_w))
                if value is None
            ]
            processes = ", ".join(f'{{ pid = {pid}, memory = "{mib}M" }}' for pid, mib in gpu.processes)
            rows.append(
                f'[[devices]]\nmother_uuid = "mock-{i}"\nmodel_name = "Mock A100"\nmemory_size = "80G"\n'
                f'utilization_pct = {gpu.utilization_pct or 0}\nmemory_used = "{gpu.used_mib}M"\n'
                f"power_w = {gpu.power_w or 0}\n"
                f"unreadable = {json.dumps(unreadable)}\nlost = {str(gpu.lost).lower()}\nprocesses = [{processes}]\n"
            )
        path.write_text("\n".join(rows))

    clock = ManualClock(NOW)
    apply([Gpu() for _ in range(3)])
    return Rig(MockSource(path, clock), clock, apply)


def nvml_rig(stub: NvmlStub) -> Rig:
    def apply(gpus: list[Gpu]) -> None:
        lines = [f"devices {len(gpus)}"]
        for i, gpu in enumerate(gpus):
            lines += [
                f"gpu {i} util {gpu.utilization_pct}",
                f"gpu {i} used {gpu.used_mib}",
                f"gpu {i} lost {int(gpu.lost)}",
            ]
            lines.append(f"gpu {i} power {-1 if gpu.power_w is None else 1000 * gpu.power_w}")
            lines += [f"gpu {i} process {pid} {mib}" for pid, mib in gpu.processes]
        stub.say(*lines)

    clock = ManualClock(NOW)
    apply([Gpu() for _ in range(3)])
    return Rig(through("NVML", NvmlSource(clock), clock), clock, apply)


SMI = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1" in
    --query-gpu=index,*) cat readings.csv ;;
    --query-gpu=uuid,*compute_cap*) cat details.csv ;;
    --query-gpu=uuid,*) cat fewer-details.csv ;;
    --query-compute-apps=*) cat apps.csv ;;
    -q) cat report.txt ;;
esac
exit "$(cat exit-code)"
"""


def smi_uuid(index: int) -> str:
    return f"GPU-5111-{index}"


def write_smi(directory: Path) -> Path:
    """A `nvidia-smi` that prints what lies in its directory."""
    command = directory / "nvidia-smi"
    command.write_text(SMI)
    command.chmod(0o755)
    (directory / "exit-code").write_text("0")
    for name in ("readings.csv", "details.csv", "fewer-details.csv", "apps.csv"):
        (directory / name).write_text("")
    (directory / "report.txt").write_text("Driver Version  : 550.54.15\nCUDA Version    : 12.4\n")
    return command


def smi_rig(directory: Path) -> Rig:
    def apply(gpus: list[Gpu]) -> None:
        readings, details, apps = [], [], []
        for i, gpu in enumerate(gpus):
            if gpu.lost:
                continue
            utilization = "[N/A]" if gpu.utilization_pct is None else gpu.utilization_pct
            power = "[N/A]" if gpu.power_w is None else f"{gpu.power_w}.00"
            more = "7, 1410, 1593, 0x0000000000000004"
            memory = f"81920, {gpu.used_mib}, {81920 - gpu.used_mib}"
            readings.append(
                f"{i}, {smi_uuid(i)}, NVIDIA A100, {memory}, {utilization}, 40, {power}, 400.00, Default, {more}"
            )
            details.append(f"{smi_uuid(i)}, 550.54.15, 00000000:1{i}:00.0, 8.0, Enabled, Enabled, Disabled")
            apps += [f"{smi_uuid(i)}, {pid}, {mib}" for pid, mib in gpu.processes]
        (directory / "readings.csv").write_text("".join(f"{line}\n" for line in readings))
        (directory / "details.csv").write_text("".join(f"{line}\n" for line in details))
        (directory / "apps.csv").write_text("".join(f"{line}\n" for line in apps))

    clock = ManualClock(NOW)
    command = write_smi(directory)
    apply([Gpu() for _ in range(3)])
    return Rig(through("nvidia-smi", NvidiaSmiSource(clock, command=str(command)), clock), clock, apply)
