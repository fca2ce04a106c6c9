"""What is said of a command in a container: both ends of the talk in memory."""

import json

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, Ping, Pong, RejectConnection, RejectData, Request

from corral.core.model.jobs.input import TerminalSize
from corral.engines.kubernetes.cluster.errors import MissingRight
from corral.engines.kubernetes.cluster.exec_talk import MOST_BYTES, STDERR, STDOUT, ExecTalk, exec_target, exit_code_of

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"


def begun(protocol: str = V4, *, ends_input: bool = False) -> tuple[ExecTalk, WSConnection]:
    talk, server = ExecTalk(), WSConnection(ConnectionType.SERVER)
    server.receive_data(talk.ask("host", "/path", {}, ends_input=ends_input))
    assert isinstance(next(iter(server.events())), Request)
    assert talk.receive(server.send(AcceptConnection(subprotocol=protocol))) == b""
    assert talk.begun
    return talk, server


def heard(server: WSConnection, sent: bytes) -> list[bytes]:
    server.receive_data(sent)
    return [bytes(event.data) for event in server.events() if isinstance(event, BytesMessage)]


def test_output_and_errors_are_apart_and_are_taken_once() -> None:
    talk, server = begun()
    assert not talk.has_output
    talk.receive(server.send(BytesMessage(b"\1out")) + server.send(BytesMessage(b"\2err")))
    talk.receive(server.send(BytesMessage(b"\1put", message_finished=False)) + server.send(BytesMessage(b"s")))
    assert talk.has_output
    assert (talk.taken(STDOUT), talk.taken(STDERR), talk.taken(STDOUT)) == (b"outputs", b"err", b"")
    assert not talk.over


def test_a_status_in_pieces_ends_it() -> None:
    talk, server = begun()
    causes = {"causes": [{"reason": "ExitCode", "message": "7"}]}
    status = {"status": "Failure", "reason": "NonZeroExitCode", "details": causes}
    data = b"\3" + json.dumps(status).encode()
    talk.receive(server.send(BytesMessage(b"\3")))  # each channel begins with nothing
    talk.receive(server.send(BytesMessage(data[:9], message_finished=False)))
    assert not talk.over
    talk.receive(server.send(BytesMessage(data[9:])))
    assert talk.over
    assert exit_code_of(talk.status() or {}) == 7


def test_what_nobody_takes_is_bounded() -> None:
    talk, server = begun()
    for _ in range(20):
        talk.receive(server.send(BytesMessage(b"\1" + bytes(100_000))))
    assert len(talk.taken(STDOUT)) == MOST_BYTES


@pytest.mark.parametrize("data", [b"", b"\7what", b"\0in"])
def test_messages_of_no_channel_are_passed_over(data: bytes) -> None:
    talk, server = begun()
    talk.receive(server.send(BytesMessage(data)) + server.send(BytesMessage(b"\1x")))
    assert talk.taken(STDOUT) == b"x"


def test_input_and_sizes_of_a_terminal_have_channels() -> None:
    talk, server = begun()
    assert heard(server, talk.input(b"keys")) == [b"\0keys"]
    [size] = heard(server, talk.resize(TerminalSize(12, 34)))
    assert (size[0], json.loads(size[1:])) == (4, {"Width": 34, "Height": 12})


def test_the_end_of_input_is_told_in_the_protocol_that_can_tell_it() -> None:
    talk, server = begun(V5, ends_input=True)
    assert heard(server, talk.end_of_input()) == [b"\xff\0"]
    older, _ = begun(V4, ends_input=True)
    assert older.end_of_input() == b""


def test_pings_are_answered() -> None:
    talk, server = begun()
    server.receive_data(talk.receive(server.send(Ping(b"there?"))))
    assert list(server.events()) == [Pong(b"there?")]


def test_a_refusal_names_the_right_that_is_missing() -> None:
    talk, server = ExecTalk(), WSConnection(ConnectionType.SERVER)
    server.receive_data(talk.ask("host", "/path", {}))
    list(server.events())
    said = 'pods "one" is forbidden: User "u" cannot get resource "pods/exec" in API group "" in the namespace "n"'
    talk.receive(server.send(RejectConnection(status_code=403, headers=[], has_body=True)))
    talk.receive(server.send(RejectData(json.dumps({"message": said}).encode())))
    assert talk.over
    with pytest.raises(MissingRight, match="may not get pods/exec in namespace n"):
        talk.status()


def test_a_connection_that_ends_says_nothing_of_the_command() -> None:
    talk, _ = begun()
    talk.receive(b"")
    assert talk.over
    assert talk.status() is None
    assert talk.input(b"late") == b""


def test_words_are_in_the_address_as_they_are() -> None:
    target = exec_target("n", "p", "main", ["echo", "a b&c=d"], stdin=True, terminal=True)
    assert target.endswith("command=echo&command=a+b%26c%3Dd&container=main&stdout=true&tty=true&stdin=true")
    assert "stderr=true" in exec_target("n", "p", "main", ["true"])
