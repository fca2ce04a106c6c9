"""Files are looked at on as few nodes as it takes, and a node that hangs keeps nobody waiting."""

import time
from collections.abc import Iterator

import pytest

from corral.clock import SystemClock
from corral.control.node_registry import Nodes
from corral.control.submitting.node_files import WITHIN_S, NodeFiles
from corral.node.simulated_node import SimulatedNode
from corral.ports.host import Credentials, FileQuery
from corral.ports.node import FileFinding
from corral.preflight.file_facts import FileFacts
from corral.runtimes.simulated import SimulatedRuntime
from corral.wire import to_plain

HERE = FileQuery(directory="/here")


class Host(SimulatedNode):
    """A node that has the directory, or has not."""

    def __init__(self, has_it: bool) -> None:
        clock = SystemClock()
        super().__init__(SimulatedRuntime(clock), clock, answer_within_s=20.0)
        self.has_it = has_it
        self.looks = 0

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        self._called()
        self.looks += 1
        return tuple(FileFinding(query, to_plain(FileFacts(enterable=self.has_it))) for query in queries)


class Cluster:
    def __init__(self) -> None:
        self.hosts = {f"n{number}": Host(has_it=True) for number in range(8)}
        self.registry = Nodes(self.hosts)
        self.files = NodeFiles(self.registry)

    def enterable(self) -> bool | None:
        found = self.files.inspect([HERE], None).get(HERE)
        return None if found is None else found.enterable


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    for host in cluster.hosts.values():
        host.answer_again()
    cluster.registry.close()


def test_a_directory_that_one_node_has_is_there(cluster: Cluster) -> None:
    for name, host in cluster.hosts.items():
        host.has_it = name == "n6"
    assert cluster.enterable() is True


def test_a_directory_that_no_node_has_was_looked_for_on_all(cluster: Cluster) -> None:
    for host in cluster.hosts.values():
        host.has_it = False
    assert cluster.enterable() is False
    assert all(host.looks == 1 for host in cluster.hosts.values())


def test_the_node_that_answered_is_asked_first_and_no_longer_the_one_that_hangs(cluster: Cluster) -> None:
    cluster.hosts["n0"].fall_silent()
    began = time.monotonic()
    assert cluster.enterable() is True
    assert time.monotonic() - began < WITHIN_S, "the node that hangs was not waited for"
    looks = {name: host.looks for name, host in cluster.hosts.items()}
    assert looks["n0"] == 0
    assert cluster.enterable() is True
    assert sum(host.looks for host in cluster.hosts.values()) > sum(looks.values())
