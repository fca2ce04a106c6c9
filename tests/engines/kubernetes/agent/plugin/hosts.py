"""Devices of a node, as its agent sees them, for tests of the device plugin."""

import ctypes.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from corral.config import Settings
from corral.core.model.devices.device import Device, DeviceSample, Link, Node
from corral.core.model.devices.means import Means
from corral.engines.kubernetes.agent.plugin.offers import SeenDevices
from corral.host.sharing.host_drivers import HostDrivers, host_drivers
from corral.vendors.vendor import Host

MEMORY_MIB = 81920


def gpu(number: int, **properties: object) -> Device:
    """A GPU with a UUID as drivers write it. Two neighbours are linked, and four are on one NUMA node."""
    known: dict[str, object] = {
        "memory_mib": MEMORY_MIB,
        "compute_capability": (8, 0),
        "mig_enabled": False,
        "means": Means.EXCLUSIVE,
        "numa_node": number // 4,
        "links": (Link(uuid(number ^ 1), "nvlink"),),
    }
    return Device(uuid(number), number, "NVIDIA A100", **{**known, **properties})  # type: ignore[arg-type]


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def mig(number: int, profile: str) -> Device:
    """A slice of a GPU."""
    return replace(
        gpu(number, mig_profile=profile, means=Means.MIG, memory_mib=10240), uuid=uuid(number).replace("GPU", "MIG")
    )


def node_of(*devices: Device) -> Node:
    return Node("n", devices, 8000, 65536, cuda_version=(12, 4))


def healthy(devices: Sequence[Device]) -> dict[str, DeviceSample]:
    return {device.uuid: DeviceSample(device.uuid, 0.0) for device in devices}


class SeenHost:
    """What the agent has read last. A test changes it."""

    def __init__(self, *devices: Device) -> None:
        self.now: SeenDevices | None = SeenDevices(node_of(*devices), healthy(devices))

    def __call__(self) -> SeenDevices | None:
        return self.now

    def falls_ill(self, number: int, why: str) -> None:
        assert self.now is not None
        samples = dict(self.now.samples)
        samples[uuid(number)] = replace(samples[uuid(number)], fault=why)
        self.now = replace(self.now, samples=samples)


def drivers_of(home: Path, *, hook: str | None = None, mps_control: str = "nvidia-cuda-mps-control") -> HostDrivers:
    settings = Settings(hook=hook, mps_control=mps_control)
    return host_drivers(Host(home, settings, described=True, by_root=False))


def some_library() -> str:
    """A library that may be loaded into any program."""
    name = ctypes.util.find_library("m")
    return str(next(Path("/lib").glob(f"*-linux-gnu/{name}")))
