"""An agent on another host serves one server: it keeps whose it is, and refuses every other."""

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

import corral
from corral.core.model.errors import Forbidden, NodeRefused
from corral.core.model.home import Home
from corral.host.node.agent_claim import Claims, ServerClaim, main
from corral.host.node.local import LocalNode
from corral.host.node.protocol import GREETING, VERSION, receive, send
from corral.host.node.remote import AgentSocket, RemoteNode
from corral.wire import to_plain
from tests.host.node.conftest import EVENT_S, RemoteHost, until
from tests.loaded import loaded

OURS = ServerClaim("tag-1", "gpu-05", "root@head:/var/lib/corral")
THEIRS = replace(OURS, server="tag-2", home="lab@other:/home/lab/.corral")


class ClaimedHost(RemoteHost):
    """An agent that serves the one server that has joined its host."""

    def start(self) -> LocalNode | RemoteNode:
        self.agent = loaded().begin_agent(self.words("--claimed"))
        self.node = self.of(OURS)
        until(self.answers, "the agent answers")
        return self.node

    def of(self, claim: ServerClaim | None) -> RemoteNode:
        return RemoteNode(AgentSocket(self.socket, claim), patience_s=EVENT_S)


@pytest.fixture
def claimed(home: Home) -> Iterator[ClaimedHost]:
    host = ClaimedHost(home)
    yield host
    host.home.claim_file.unlink(missing_ok=True)
    host.end()


def said(host: ClaimedHost, claim: ServerClaim) -> dict[str, object]:
    """The agent's first frame after a claim."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(EVENT_S)
        connection.connect(str(host.socket))
        send(connection, to_plain(claim))
        return receive(connection)


def refused(host: ClaimedHost, claim: ServerClaim | None) -> str:
    node = host.of(claim)
    with pytest.raises(NodeRefused) as error:
        node.launches.reports(())
    node.close()
    return str(error.value)


def test_an_agent_serves_its_server_and_tells_another_whose_it_is(claimed: ClaimedHost) -> None:
    assert said(claimed, OURS) == {
        GREETING: VERSION,
        "node": said(claimed, OURS)["node"],
        "version": corral.__version__,
    }
    words = refused(claimed, THEIRS)
    assert "serves another server, root@head:/var/lib/corral, as node gpu-05" in words
    assert "corral agent release" in words
    assert claimed.node.launches.reports(()).reports == ()


def test_the_claim_outlives_the_agent(claimed: ClaimedHost) -> None:
    claimed.end()
    claimed.start()
    assert "serves another server" in refused(claimed, THEIRS)


def test_a_host_under_two_names_of_one_server_is_refused_with_both(claimed: ClaimedHost) -> None:
    words = refused(claimed, replace(OURS, name="gpu-06"))
    assert "is node gpu-05 of this server already" in words


def test_a_server_sets_its_own_agent_free_and_no_other(claimed: ClaimedHost) -> None:
    assert "error" in said(claimed, replace(THEIRS, releases=True))
    assert GREETING in said(claimed, replace(OURS, releases=True))
    assert GREETING in said(claimed, THEIRS)


def test_a_person_there_sets_an_agent_free(claimed: ClaimedHost) -> None:
    assert Claims(claimed.home).release() == OURS
    assert GREETING in said(claimed, THEIRS)
    assert "serves another server" in refused(claimed, OURS)


def test_no_call_is_answered_before_a_claim(claimed: ClaimedHost) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(EVENT_S)
        connection.connect(str(claimed.socket))
        send(connection, {"call": "launches.reports", "arguments": {"launch_ids": []}})
        assert receive(connection)["error"] == "Refused"
        assert connection.recv(1) == b""


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"server": 7}', "\x00" * 100])
def test_a_claim_that_cannot_be_read_frees_nobody(home: Home, damage: str) -> None:
    home.claim_file.write_text(damage)
    claims = Claims(home)
    with pytest.raises(Exception, match="corral agent release"):
        claims.admit(OURS)
    assert claims.release() is None
    claims.admit(OURS)
    with pytest.raises(Forbidden):
        claims.admit(THEIRS)


def test_an_agent_is_not_released_while_a_server_is_connected_which_would_claim_it_again(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    Claims(home).admit(OURS)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as server:
        listener.bind(str(home.agent_socket))
        listener.listen()
        assert main([str(home.root)]) == 0
        Claims(home).admit(OURS)
        server.connect(str(home.agent_socket))
        accepted, _ = listener.accept()
        assert main([str(home.root)]) == 1
        assert "the server root@head:/var/lib/corral is connected" in capsys.readouterr().err
        assert Claims(home).owner() == OURS
        accepted.close()
    assert main([str(home.root)]) == 0
    assert Claims(home).owner() is None


def test_an_agent_whose_socket_is_elsewhere_is_found_from_its_home_and_not_released_while_it_serves(
    claimed: ClaimedHost, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claimed.socket != claimed.home.agent_socket
    found = RemoteNode(AgentSocket(claimed.home.agent_socket, OURS), patience_s=EVENT_S)
    assert found.launches.reports(()).reports == ()
    found.close()
    assert main([str(claimed.home.root)]) == 1, "its server has a connection"
    assert "the server root@head:/var/lib/corral is connected" in capsys.readouterr().err
    claimed.node.close()
    until(lambda: main([str(claimed.home.root)]) == 0, "it is freed once its server has gone")
    assert Claims(claimed.home).owner() is None
