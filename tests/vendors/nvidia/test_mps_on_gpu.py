"""On a real GPU, MPS keeps a client to its memory, and two half shares lose next to nothing of the whole."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.model.devices.device import Device
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.vendors.nvidia.mps import Mps

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        shutil.which("nvidia-cuda-mps-control") is None, reason="nvidia-cuda-mps-control is not installed here"
    ),
]

CLIENT = Path(__file__).with_name("cuda_client.py")
LAUNCHES = 200


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[Mps, Device]]:
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    uuid, name, memory_mib = (field.strip() for field in listed.splitlines()[0].split(","))
    device = Device(uuid, 0, name, int(memory_mib))
    mps = Mps(tmp_path / "h")
    mps.prepare(device)
    yield mps, device
    mps.release(device)


def client(action: str, amount: int, device: Device, limits: tuple[tuple[str, str], ...]) -> "subprocess.Popen[str]":
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": device.uuid, **dict(limits)}
    command = [sys.executable, str(CLIENT), action, str(amount)]
    return subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def half(mps: Mps, device: Device, job_id: str, memory_mib: int) -> tuple[tuple[str, str], ...]:
    return mps.environment(device, Tenant(job_id, "me", Grant(device.uuid, 500, memory_mib)))


@pytest.mark.parametrize(("mib", "answer"), [(256, "ok"), (8192, "out of memory")])
def test_an_allocation_beyond_the_grant_is_refused(shared: tuple[Mps, Device], mib: int, answer: str) -> None:
    mps, device = shared
    told, _ = client("alloc", mib, device, half(mps, device, "1", 2048)).communicate(timeout=120)
    assert told.strip() == answer


def test_two_half_shares_reach_the_throughput_of_a_whole_device(shared: tuple[Mps, Device]) -> None:
    mps, device = shared
    alone_s = max(burn([client("burn", LAUNCHES, device, ())]))
    halves = [client("burn", LAUNCHES, device, half(mps, device, job_id, 4096)) for job_id in ("1", "2")]
    together_s = max(burn(halves))
    assert 2 * alone_s / together_s >= 0.95


def burn(clients: "list[subprocess.Popen[str]]") -> list[float]:
    for one in clients:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in clients:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return [float(one.communicate(timeout=300)[0]) for one in clients]
