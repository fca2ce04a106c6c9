"""Nodes of a mock file: what each has, and errors that name the line."""

import os
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.model.errors import Refused
from corral.host.telemetry.discover import discover
from corral.host.telemetry.host import host_node
from corral.host.telemetry.mock import MockSource
from corral.host.telemetry.mock_cluster import MockCluster, read_mock_cluster

TWO = """\
[attributes]
nvidia_driver = "550.1"

[[nodes]]
name = "gpu-01"
cpus = 16
memory = "128G"
disk = "1T"
labels = { zone = "a" }

[[nodes.devices]]
mother_uuid = "a"
model_name = "Mock A100"
memory_size = "80G"

[[nodes]]
name = "gpu-02"
silent = true
devices = [{ mother_uuid = "b", model_name = "Mock H100", memory_size = "80G" }]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mock.toml"


def read(path: Path, text: str) -> MockCluster:
    path.write_text(text)
    return read_mock_cluster(path)


def refusal(path: Path, text: str) -> str:
    with pytest.raises(Refused) as refused:
        read(path, text)
    return str(refused.value)


def test_each_node_has_what_its_table_says(path: Path) -> None:
    first, second = read(path, TWO).nodes
    assert (first.name, first.cpu_milli, first.memory_mib, first.disk_mib) == ("gpu-01", 16_000, 131_072, 1_048_576)
    assert first.labels == (("zone", "a"),)
    assert [mock.device.index for node in (first, second) for mock in node.box.devices] == [0, 0]
    assert (first.silent, second.silent, second.gone) == (False, True, False)
    assert second.cpu_milli is None


def test_a_file_without_nodes_is_one_node_of_this_host(path: Path) -> None:
    cluster = read(path, '[[devices]]\nmother_uuid = "a"\nmodel_name = "X"\nmemory_size = "8G"\n')
    assert (cluster.named, len(cluster.nodes)) == (False, 1)
    assert MockSource(path, ManualClock()).node().name == host_node().name


def test_a_source_is_one_node_of_the_file(path: Path) -> None:
    path.write_text(TWO)
    node = discover(ManualClock(), mock=path, node="gpu-01", labels={"rack": "7"}).node()
    assert (node.name, node.cpu_milli, node.memory_mib, node.disk_mib) == ("gpu-01", 16_000, 131_072, 1_048_576)
    assert dict(node.labels) == {"zone": "a", "rack": "7", "driver-version": "550.1"}
    assert [device.uuid for device in node.devices] == ["a"]


def test_what_a_node_does_not_say_is_as_this_host_has_it(path: Path) -> None:
    path.write_text(TWO)
    node = MockSource(path, ManualClock(), node="gpu-02").node()
    assert (node.cpu_milli, node.memory_mib) == (host_node().cpu_milli, host_node().memory_mib)


def test_a_node_that_the_file_does_not_describe_is_refused_with_the_nearest(path: Path) -> None:
    path.write_text(TWO)
    with pytest.raises(Refused, match=r"describes no node gpu-03; .*gpu-0"):
        MockSource(path, ManualClock(), node="gpu-03")
    with pytest.raises(Refused, match="it has gpu-01, gpu-02"):
        MockSource(path, ManualClock())


def test_a_source_takes_over_an_edit_of_its_node(path: Path) -> None:
    path.write_text(TWO)
    source = MockSource(path, ManualClock(), node="gpu-01")
    path.write_text(TWO.replace("cpus = 16", "cpus = 8"))
    os.utime(path, ns=(1, 1))
    assert source.node().cpu_milli == 8000


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("cpus = 16", "cpu = 16"), "line 6: nodes[0]: cpu is not a known key; did you mean 'cpus'?"),
        (("cpus = 16", "cpus = 0"), "line 6: node gpu-01: cpus must be a number of CPUs, not 0"),
        (('memory = "128G"', "memory = 128"), "line 7: node gpu-01: memory must be a size with a unit"),
        (('name = "gpu-02"', 'name = "gpu-01"'), "line 17: nodes[1]: there is a node gpu-01 already"),
        (('name = "gpu-02"', 'name = "../x"'), "line 17: nodes[1]: name must be a name of letters"),
        (('name = "gpu-02"\n', ""), "line 16: nodes[1]: name is missing"),
        (('mother_uuid = "b"', 'mother_uuid = "a"'), "line 19: node gpu-02.devices[0]: a is a device of node gpu-01"),
        (('zone = "a"', "zone = 1"), "line 9: node gpu-01: 'zone' = 1 is not a label"),
        (('zone = "a"', 'driver-version = "1"'), "line 9: node gpu-01: label driver-version is what the driver says"),
        (("silent = true", 'silent = "yes"'), "line 18: node gpu-02: silent must be true or false"),
        (("[attributes]", "devices = []\n[attributes]"), "line 1: this file lists nodes, so each device"),
    ],
)
def test_mistakes_are_refused_with_their_line(path: Path, change: tuple[str, str], told: str) -> None:
    assert refusal(path, TWO.replace(*change)).startswith(f"{path}, {told}")


def test_an_empty_list_of_nodes_is_refused(path: Path) -> None:
    assert "nodes is empty" in refusal(path, "nodes = []")


def test_the_example_is_four_nodes_of_eight_devices() -> None:
    with as_file(files("corral.host.telemetry") / "data" / "mock-cluster.toml") as path:
        cluster = read_mock_cluster(path)
    assert [node.name for node in cluster.nodes] == ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]
    assert [len(node.box.devices) for node in cluster.nodes] == [8, 8, 8, 8]
    assert len({mock.device.model for node in cluster.nodes for mock in node.box.devices}) == 3
