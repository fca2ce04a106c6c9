"""A mock cluster follows its file: nodes fall silent, are switched off, come back, are added and removed."""

import os
import signal
from collections.abc import Iterator

import pytest

from corral.core.model.errors import NodeUnreachable
from corral.core.model.home import Home
from corral.core.model.runs.launch import LaunchPhase
from corral.host.node.mock.mock_nodes import MockNodes
from corral.host.node.remote import AgentSocket, RemoteNode
from tests.host.node.conftest import CONFIG, a_launch, until

NODE = '[[nodes]]\nname = "{name}"\n{fault}\ndevices = []\n'


class Cluster:
    """A mock cluster whose file a test edits, and what was told of it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.path = home.root / "mock.toml"
        home.config_file.write_text(CONFIG)
        self.describe(a="", b="")
        self.nodes = MockNodes(home, self.path)
        self.agents = self.nodes.start()
        self.left: list[str] = []
        self.nodes.watch(self.agents.__setitem__, self.left.append)

    def describe(self, **faults: str) -> None:
        """Write the file anew, in one step: each node with its fault."""
        draft = self.path.with_suffix(".draft")
        draft.write_text("".join(NODE.format(name=name, fault=fault) for name, fault in faults.items()))
        draft.rename(self.path)

    def epoch(self, name: str) -> str:
        news = self.agents[name].news
        assert news is not None
        return news.since(0, 0.0).epoch

    def agent(self, name: str, patience_s: float = 0.3) -> RemoteNode:
        return RemoteNode(AgentSocket(self.home.root / "nodes" / name / "agent.sock"), patience_s=patience_s)

    def answers(self, name: str) -> bool:
        agent = self.agent(name)
        try:
            agent.launches.reports(())
        except NodeUnreachable:
            return False
        else:
            return True
        finally:
            agent.close()

    def phase(self, name: str, launch_id: str) -> LaunchPhase:
        return self.agents[name].launches.reports((launch_id,)).reports[0].phase

    def run(self, name: str) -> int:
        """A job on the node; its pid."""
        pid_file = self.home.root / f"pid-{name}"
        self.agents[name].launches.reconcile((), ())
        self.agents[name].launches.launch(
            a_launch(1, "sh", "-c", f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}; sleep 600")
        )
        until(pid_file.exists, "the job runs")
        return int(pid_file.read_text())


@pytest.fixture
def cluster(home: Home) -> Iterator[Cluster]:
    cluster = Cluster(home)
    yield cluster
    cluster.describe(a="gone = true", b="gone = true")
    until(lambda: not any(cluster.answers(name) for name in ("a", "b")), "all jobs are ended with their nodes")
    cluster.nodes.close()


def runs(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def test_a_silent_node_answers_nobody_while_its_jobs_run_on(cluster: Cluster) -> None:
    pid = cluster.run("a")
    cluster.describe(a="silent = true", b="")
    until(lambda: not cluster.answers("a"), "a is silent")
    assert cluster.answers("b")
    assert runs(pid)
    cluster.describe(a="", b="")
    until(lambda: cluster.answers("a"), "a is back")
    assert cluster.phase("a", "1.1") is LaunchPhase.RUNNING


def test_a_node_that_is_gone_takes_its_jobs_with_it_and_leaves_no_word_of_their_end(cluster: Cluster) -> None:
    pid = cluster.run("a")
    cluster.describe(a="gone = true", b="")
    until(lambda: not runs(pid), "the job's process has ended")
    until(lambda: not cluster.answers("a"), "its agent has ended")
    cluster.describe(a="", b="")
    until(lambda: cluster.answers("a"), "a is switched on again")
    until(lambda: cluster.phase("a", "1.1") is LaunchPhase.DEAD, "nothing tells how the job ended")


def test_an_agent_that_dies_is_started_again_and_its_job_goes_on(cluster: Cluster) -> None:
    pid = cluster.run("a")
    epoch = cluster.epoch("a")
    os.kill(cluster.nodes.pid("a"), signal.SIGKILL)
    until(lambda: cluster.answers("a") and cluster.epoch("a") != epoch, "another agent is there")
    assert runs(pid)
    assert cluster.phase("a", "1.1") is LaunchPhase.RUNNING


def test_nodes_are_added_and_removed_with_the_file(cluster: Cluster) -> None:
    cluster.describe(a="", c="")
    until(lambda: "c" in cluster.agents and cluster.answers("c"), "c has joined")
    until(lambda: not cluster.answers("b"), "b has left")
    assert cluster.left == ["b"]


def test_a_bad_edit_changes_nothing(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.path.write_text("[[nodes]]\nname = 7\n")
    until(lambda: "the nodes that it described before are kept" in caplog.text, "the server's log says what is wrong")
    assert "line 2" in caplog.text
    assert cluster.answers("a")
    assert cluster.answers("b")
