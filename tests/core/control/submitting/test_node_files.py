"""Files are inspected on several nodes at once, and a node that hangs keeps nobody waiting."""

import time
from collections.abc import Iterator

import pytest

from corral.clock import SystemClock
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.nodes.node_workers import MAX_INSPECTIONS
from corral.core.control.submitting import node_files
from corral.core.control.submitting.node_files import NodeFiles
from corral.core.model.errors import NodeUnreachable
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.node import FileFinding
from corral.core.preflight.file_facts import FileFacts
from corral.host.node.mock.simulated_node import SimulatedHost, SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.wire import to_plain

HERE = FileQuery(directory="/here")


class Files(SimulatedHost):
    def __init__(self, node: "Host") -> None:
        super().__init__(node)
        self._host = node

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        return tuple(FileFinding(query, to_plain(FileFacts(enterable=self._host.has_it))) for query in queries)


class Host(SimulatedNode):
    """A node that has the directory, or has not."""

    def __init__(self, has_it: bool) -> None:
        clock = SystemClock()
        super().__init__(SimulatedRuntime(clock), clock, answer_within_s=60.0)
        self.has_it = has_it
        self.parts["host"] = Files(self)


class Cluster:
    def __init__(self) -> None:
        self.hosts = {f"n{number}": Host(has_it=True) for number in range(8)}
        self.registry = Nodes(self.hosts)
        self.files = NodeFiles(self.registry)

    def enterable(self) -> dict[str, bool | None]:
        found = self.files.inspect({name: [HERE] for name in self.hosts}, None)
        return {name: facts[HERE].enterable if HERE in facts else None for name, facts in found.items()}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    for host in cluster.hosts.values():
        host.answer_again()
    cluster.registry.close()


def test_each_node_answers_for_itself(cluster: Cluster) -> None:
    for name, host in cluster.hosts.items():
        host.has_it = name == "n6"
    assert cluster.enterable() == {name: name == "n6" for name in cluster.hosts}


def test_a_node_that_hangs_is_not_waited_for_once_another_has_answered(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_files, "WITHIN_S", 60.0)
    cluster.hosts["n0"].fall_silent()
    began = time.monotonic()
    assert cluster.enterable() == {name: True for name in cluster.hosts if name != "n0"}
    assert time.monotonic() - began < 30


def test_where_no_node_answers_nothing_is_known(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_files, "WITHIN_S", 0.2)
    for host in cluster.hosts.values():
        host.fall_silent()
    assert cluster.enterable() == dict.fromkeys(cluster.hosts)


def test_many_looks_at_a_node_that_hangs_take_no_more_threads_than_allowed(cluster: Cluster) -> None:
    cluster.hosts["n0"].fall_silent()
    worker = cluster.registry.worker("n0")
    answers = [
        worker.inspect(lambda: cluster.hosts["n0"].host.inspect((HERE,), None)) for _ in range(MAX_INSPECTIONS + 1)
    ]
    assert isinstance(answers[-1].exception(timeout=0), NodeUnreachable)
    cluster.hosts["n0"].answer_again()
    assert all(answer.result(timeout=60.0) for answer in answers[:-1])
