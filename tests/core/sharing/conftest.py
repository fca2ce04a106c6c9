"""Devices to share."""

import pytest

from corral.core.model.devices.device import Device, Node, Partition
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant


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
