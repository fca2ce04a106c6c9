"""Whose GPUs are this host's: those of the node with its boot, whatever that node is called."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client, DeviceRow
from corral.clock import boot_id
from corral.core.model.answers.site import NodeRow
from corral.core.model.errors import Refused
from corral.gpu import GPUMonitor, LeaseTimedOut, lease
from corral.gpu.this_host import node_here
from tests.e2e.box import Box, serving
from tests.engines.pool import cluster
from tests.vendors.nvidia.nvml_stub import NvmlStub, stub_uuid

OTHER_BOOT = "0b5e7a9c-0000-4000-8000-000000000000"


class Listing:
    """A server's nodes and devices, as of hosts that these tests do not have."""

    def __init__(self, *nodes: NodeRow, devices: tuple[DeviceRow, ...] = ()) -> None:
        self.nodes = self
        self.devices = type("Devices", (), {"list": lambda _: devices})()
        self._nodes = nodes

    def list(self) -> tuple[NodeRow, ...]:
        return self._nodes


def found(*nodes: NodeRow, devices: tuple[DeviceRow, ...] = (), uuids: frozenset[str] = frozenset()) -> str | None:
    client: Any = Listing(*nodes, devices=devices)
    return node_here(client, lambda: uuids)


def test_a_node_is_this_host_by_its_boot_and_not_by_its_name() -> None:
    other = NodeRow(os.uname().nodename, boot_id=OTHER_BOOT)
    assert found(NodeRow("gpu-01", boot_id=boot_id()), other) == "gpu-01"
    assert found(other, NodeRow("gpu-02", boot_id=OTHER_BOOT)) is None


def test_of_nodes_on_one_host_the_one_is_meant_whose_gpus_or_slices_the_driver_shows() -> None:
    nodes = [NodeRow(name, boot_id=boot_id()) for name in ("a", "b")]
    devices = (DeviceRow("GPU-a", node="a"), DeviceRow("MIG-b", node="b", parent="GPU-b"))
    assert found(*nodes, devices=devices, uuids=frozenset({"GPU-a"})) == "a"
    assert found(*nodes, devices=devices, uuids=frozenset({"GPU-b"})) == "b"
    for uuids, said in (
        (frozenset[str](), "shows none of"),
        (frozenset({"GPU-a", "GPU-b"}), "shows GPUs of a, b here"),
    ):
        with pytest.raises(Refused, match=said):
            found(*nodes, devices=devices, uuids=uuids)


def test_a_node_of_an_older_version_is_known_by_its_gpus_else_by_its_name() -> None:
    nodes = NodeRow("a"), NodeRow(os.uname().nodename)
    devices = (DeviceRow("GPU-a", node="a"),)
    assert found(*nodes, devices=devices, uuids=frozenset({"GPU-a"})) == "a"
    assert found(*nodes, devices=devices) == os.uname().nodename
    assert found(nodes[0], devices=devices) is None


def test_a_host_that_does_not_show_its_boot_is_known_by_its_gpus_else_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reads = []

    def none() -> str:
        reads.append(1)
        return (tmp_path / "none").read_text()

    monkeypatch.setattr("corral.clock.boot_id", none)
    nodes = NodeRow("a", boot_id=OTHER_BOOT), NodeRow("b", boot_id=OTHER_BOOT), NodeRow("c")
    devices = (DeviceRow("GPU-b", node="b"),)
    assert found(*nodes, devices=devices, uuids=frozenset({"GPU-b"})) == "b"
    assert found(*nodes, devices=devices) is None
    assert found(*nodes, NodeRow(os.uname().nodename, boot_id=OTHER_BOOT)) == os.uname().nodename
    assert len(reads) == 3, "once for all nodes"


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """A server whose one node is called otherwise than this host."""
    with serving(cluster(elsewhere="")) as box:
        monkeypatch.setenv("CORRAL_HOME", str(box.home))
        box.until(lambda: [node["state"] for node in box.json("nodes", "--json")] == ["ready"])
        yield box


def test_a_node_that_is_called_otherwise_is_seen_and_leased_with_what_jobs_hold_of_it(one: Box) -> None:
    job = one.submit("--gpus", "1", "--", "sleep", "60")
    one.until(lambda: len(GPUMonitor().get_available_gpus(max_utilization=100)) == 1)
    (taken,) = one.json("show", job, "--json")["devices"]
    with lease(gpus=1, timeout_seconds=60) as held:
        assert held.job_id is not None
        assert set(held.uuids) == {"GPU-elsewhere-0", "GPU-elsewhere-1"} - {taken}
        with pytest.raises(LeaseTimedOut):
            lease(gpus=1, timeout_seconds=0.1)


def test_a_host_that_is_no_node_of_the_server_leases_its_own_gpus_and_none_of_the_servers(
    one: Box, stubbed_nvml: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.gpu.this_host.known_boot_id", lambda: OTHER_BOOT)
    with lease(gpus=1, timeout_seconds=60) as held:
        assert held.job_id is None
        assert held.uuids[0] in {stub_uuid(index) for index in range(8)}
    assert one.json("ps", "--all", "--json") == []


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    with serving(cluster(a="", b="")) as box:
        monkeypatch.setenv("CORRAL_HOME", str(box.home))
        box.until(lambda: {node["state"] for node in box.json("nodes", "--json")} == {"ready"})
        yield box


def test_of_several_nodes_on_this_host_none_is_guessed(
    two: Box, stubbed_nvml: NvmlStub, caplog: pytest.LogCaptureFixture
) -> None:
    with Client() as client:
        assert {node.boot_id for node in client.nodes.list()} == {boot_id()}
    with pytest.raises(Refused, match=r"a, b are 2 nodes of the server on this one host.*corral run --node a"):
        lease(gpus=1, timeout_seconds=1)
    # What the driver shows without the server would be free of jobs that nobody sees.
    assert GPUMonitor().query_gpus() is None
    assert "a, b are 2 nodes" in caplog.text


def test_a_job_knows_the_node_that_it_runs_on(two: Box) -> None:
    script = "from corral.gpu import lease; print(*lease(gpus=1, timeout_seconds=30).uuids)"
    done = two.run("run", "--node", "b", "--gpus", "1", "--", sys.executable, "-c", script)
    assert done.stdout.split()[-1:] in (["GPU-b-0"], ["GPU-b-1"]), done
