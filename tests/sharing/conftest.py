"""Devices to share, and a stand-in for NVIDIA's MPS control program."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.model.allocation import Grant
from corral.model.device import Device, Node, Partition
from corral.model.tenant import Tenant

FAKE_MPS_CONTROL = Path(__file__).with_name("fake_mps_control.py")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory with a short path: a socket's may not be long."""
    with tempfile.TemporaryDirectory(prefix="s-") as directory:
        yield Path(directory)


@pytest.fixture
def mps_control(tmp_path: Path) -> str:
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(f"#!{sys.executable} -ISB\n{FAKE_MPS_CONTROL.read_text()}")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def device() -> Device:
    return Device("GPU-a", 0, "NVIDIA A100-SXM4-80GB", 81920, compute_capability=(8, 0), mig_enabled=False)


@pytest.fixture
def sliced() -> Device:
    return Device(
        "GPU-m",
        1,
        "NVIDIA A100-SXM4-80GB",
        81920,
        compute_capability=(8, 0),
        mig_enabled=True,
        partitions=(
            Partition("MIG-1", "1g.10gb", 9728),
            Partition("MIG-2", "1g.10gb", 9728),
            Partition("MIG-3", "3g.40gb", 40192),
        ),
    )


@pytest.fixture
def node(device: Device, sliced: Device) -> Node:
    return Node("gpu-01", (device, sliced), 64_000, 512_000, driver_version="550.54.14", cuda_version=(12, 4))


def tenant(job_id: str, share_milli: int, *, user: str = "ada", uuid: str = "GPU-a", alone: bool = True) -> Tenant:
    return Tenant(job_id, user, Grant(uuid, share_milli, 81920 * share_milli // 1000), alone=alone)
