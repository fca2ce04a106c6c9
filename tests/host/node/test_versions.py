"""Agents of other versions: those of the same protocol work, older ones are watched, and others are refused."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from corral.core.model.errors import NodeRefused, NodeUnreachable
from corral.core.model.home import Home
from corral.core.ports.node import Keep
from corral.host.node.local import LocalNode
from corral.host.node.protocol import OLDEST_WATCHED, VERSION
from corral.host.node.remote import AgentSocket, RemoteNode
from tests.host.node.conftest import EVENT_S, RemoteHost, a_launch, until


class OtherHost(RemoteHost):
    """An agent that greets with another version of the protocol, or of Corral."""

    greets = "VERSION = 3"

    def start(self) -> LocalNode | RemoteNode:
        program = f"import corral, corral.host.node.agent as agent\nagent.{self.greets}\nraise SystemExit(agent.main())"
        command = [sys.executable, "-c", program, "--home", str(self.home.root), "--node", "here"]
        self.agent = subprocess.Popen([*command, "--socket", str(self.socket), "--mock", str(self.mock)])
        self.node = RemoteNode(AgentSocket(self.socket), patience_s=EVENT_S)
        until(self.socket.exists, "the agent is there")
        return self.node

    def greet_as(self, greets: str) -> None:
        self.end()
        self.greets = greets
        self.start()


@pytest.fixture
def other(home: Home) -> Iterator[OtherHost]:
    host = OtherHost(home)
    yield host
    host.greet_as(f"VERSION = {VERSION}")
    host.node.launches.reconcile((), ())
    until(lambda: not any(host.home.launches.iterdir()), "every launch is ended")
    host.end()


def test_an_agent_of_another_release_works_if_it_speaks_the_protocol(other: OtherHost) -> None:
    other.greet_as("corral.__version__ = '0.0.1'")
    news = other.node.news.since(0, 0.0)
    assert news.node is not None
    assert news.node.cordoned is None


def test_an_older_agent_is_watched_and_starts_nothing(other: OtherHost) -> None:
    launch = a_launch(1, "/bin/sh", "-c", "echo hello; sleep 600")
    other.node.launches.launch(launch)
    until(lambda: other.log("1"), "the job writes")
    other.greet_as(f"VERSION = {OLDEST_WATCHED}")
    other.node.launches.reconcile((launch,), ())
    node = other.node.news.since(0, 0.0).node
    assert node is not None
    assert f"protocol {OLDEST_WATCHED}, here {VERSION}" in (node.cordoned or "")
    with pytest.raises(NodeUnreachable, match="nothing starts there before it is upgraded"):
        other.node.launches.launch(a_launch(2, "/bin/true"))
    assert other.report("2.1").phase == "unknown"
    assert other.report("1.1").phase == "running"
    other.node.launches.stop("1.1")
    until(lambda: other.report("1.1").phase.over, "the job is stopped")
    other.node.launches.forget("1.1", keep=Keep.NOTHING)


@pytest.mark.parametrize("version", [OLDEST_WATCHED - 1, VERSION + 1])
def test_an_agent_that_is_too_old_or_too_new_is_refused_with_both_versions(other: OtherHost, version: int) -> None:
    other.greet_as(f"VERSION = {version}")
    with pytest.raises(NodeRefused, match=f"speaks version {version} of the protocol and this server {VERSION}"):
        other.node.news.since(0, 0.0)
