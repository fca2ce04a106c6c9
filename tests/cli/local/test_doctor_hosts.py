"""What `corral doctor` finds of hosts that are joined by SSH."""

from dataclasses import replace

import pytest

import corral
from corral.cli.local.doctor_hosts import host_finding
from corral.client import DeviceRow, NodeRow
from corral.core.model.devices.joined_host import HostState, JoinedHost
from corral.formatting.check_result import OK, WARNING

HOST = JoinedHost("gpu-05", "admin@gpu-05", state=HostState.READY, version=corral.__version__)
GPU = DeviceRow("GPU-1", 0, "Mock A100", "free", node="gpu-05")


def test_a_host_that_lacks_nothing_is_told_with_all_that_was_checked() -> None:
    found = host_finding(HOST, NodeRow("gpu-05"), [GPU])
    assert found.state == OK
    assert found.found == f"gpu-05: ready by ssh admin@gpu-05, version {corral.__version__}, 1 GPU, Docker"


@pytest.mark.parametrize(
    ("host", "node", "said"),
    [
        ({"version": "0.0.1"}, {}, "corral hosts upgrade gpu-05"),
        ({}, {"clock_ahead_s": 3600.0}, "its clock is 1h ahead of the server's"),
        ({}, {"clock_ahead_s": -90.0}, "its clock is 1m 30s behind the server's"),
        ({}, {"barred": {"alice": "there is no account alice"}}, "it cannot run jobs of alice: there is no account"),
        ({}, {"state": "silent", "reason": "devices of another"}, "its node is silent (devices of another)"),
        ({"state": HostState.UNREACHABLE, "reason": "no route"}, {}, "gpu-05 is unreachable: no route"),
    ],
)
def test_what_is_wrong_with_a_host_is_a_warning(host: dict[str, object], node: dict[str, object], said: str) -> None:
    found = host_finding(replace(HOST, **host), NodeRow("gpu-05", **node), [GPU])  # type: ignore[arg-type]
    assert found.state == WARNING
    assert said in f"{found.found} -> {found.advice}"


def test_a_host_without_docker_or_with_a_sick_gpu_says_so() -> None:
    bare = host_finding(HOST, NodeRow("gpu-05", no_docker="Docker is not installed there"), [])
    assert (bare.state, bare.found.endswith("0 GPUs, no containers (Docker is not installed there)")) == (OK, True)
    sick = host_finding(HOST, NodeRow("gpu-05"), [DeviceRow("GPU-1", 0, "Mock A100", "unreadable", node="gpu-05")])
    assert sick.state == WARNING
    assert "unreadable" in sick.found
