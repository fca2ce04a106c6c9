"""A command in a pod, over a connection whose other end is the test."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage

from corral.core.model.jobs.input import TerminalSize
from corral.core.ports.runtime import InnerCommand, InnerOutput
from corral.engines.kubernetes.cluster.connection import OpenLine
from corral.engines.kubernetes.cluster.errors import ClusterUnreachable
from corral.engines.kubernetes.cluster.exec_talk import ExecTalk
from corral.engines.kubernetes.cluster.pod_exec import begin_over
from corral.engines.kubernetes.pods import pod_execution
from corral.engines.kubernetes.pods.pod_execution import PodExecution, failure_code

PATIENCE_S = 60.0


class Other:
    """The API server's end."""

    def __init__(self) -> None:
        self.socket, ours = socket.socketpair()
        self.socket.settimeout(PATIENCE_S)
        self.line = OpenLine(ours, "host", "", {}, ours.close)
        self._talk = WSConnection(ConnectionType.SERVER)

    def begin(self, command: InnerCommand) -> PodExecution:
        talk = ExecTalk()
        self._talk.receive_data(talk.ask("host", "/path", {}, ends_input=True))
        list(self._talk.events())
        talk.receive(self._talk.send(AcceptConnection(subprotocol="v5.channel.k8s.io")))
        return PodExecution(self.line, talk, command)

    def say(self, channel: int, data: bytes) -> None:
        self.socket.sendall(self._talk.send(BytesMessage(bytes([channel]) + data)))

    def hear(self) -> list[bytes]:
        self._talk.receive_data(self.socket.recv(1 << 20))
        return [bytes(event.data) for event in self._talk.events() if isinstance(event, BytesMessage)]


@pytest.fixture
def other() -> Iterator[Other]:
    other = Other()
    yield other
    other.socket.close()
    other.line.close()


CAT = InnerCommand(("cat",), stdin=True)


def test_a_piece_may_be_asked_for_again_until_the_next_one_is(other: Other) -> None:
    run = other.begin(CAT)
    assert run.read(0) == InnerOutput(0)
    other.say(1, b"out")
    other.say(2, b"err")
    other.say(3, json.dumps({"status": "Success"}).encode())
    first = run.read(0)
    assert (first, run.read(0)) == (InnerOutput(1, b"out", b"err"), first)
    assert run.read(1) == run.read(1) == InnerOutput(2, exit_code=0)


def test_input_that_was_taken_is_passed_over_and_its_end_is_told_once(other: Other) -> None:
    run = other.begin(CAT)
    assert run.write(0, b"abc", end=False) == (3, True)
    assert run.write(0, b"abcde", end=True) == (5, False)
    assert run.write(0, b"abcde", end=True) == (5, False)
    assert run.write(5, b"more", end=False) == (5, False)
    run.close()
    heard = other.hear()
    assert heard == [b"\0abc", b"\0de", b"\xff\0"]


def test_a_command_that_takes_no_input_is_not_heaped_up(other: Other) -> None:
    run, taken = other.begin(CAT), 0
    for _ in range(200):
        progress, _ = run.write(taken, bytes(64 * 1024), end=False)
        if progress == taken:
            break
        taken = progress
    else:
        pytest.fail("it takes all")
    assert taken < 4 << 20


def test_output_that_nobody_reads_stays_at_its_source(other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_execution, "PIECE_BYTES", 1)
    run = other.begin(CAT)
    other.socket.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            other.say(1, bytes(1000))
    assert 0 < len(run.read(0).stdout) < 1 << 16


def test_a_terminal_is_told_its_size_and_that_its_client_has_left(other: Other) -> None:
    run = other.begin(InnerCommand(("sh",), TerminalSize(24, 80)))
    run.resize(TerminalSize(12, 34))
    run.close()
    heard = other.hear()
    assert [json.loads(one[1:])["Height"] for one in heard if one[0] == 4] == [24, 12]
    assert heard[-1] == b"\0\x03\x04"


def test_a_connection_that_breaks_off_is_told_after_what_came(other: Other) -> None:
    run = other.begin(CAT)
    other.say(1, b"last")
    other.socket.close()
    assert run.read(0).stdout == b"last"
    end = run.read(1)
    assert end.exit_code == 125
    assert "broke off" in str(end.message)
    assert run.write(0, b"x", end=False)[1] is False


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ('exec: "nosuch": executable file not found in $PATH: unknown', 127),
        ('exec: "/nosuch": stat /nosuch: no such file or directory: unknown', 127),
        ('exec: "/etc/passwd": permission denied: unknown', 126),
        ("container runtime is down", 125),
    ],
)
def test_what_cannot_be_started_has_the_code_of_a_shell(other: Other, said: str, code: int) -> None:
    assert failure_code(said) == code
    run = other.begin(CAT)
    other.say(3, json.dumps({"status": "Failure", "reason": "InternalError", "message": said}).encode())
    end = run.read(0)
    assert (end.exit_code, said in str(end.message)) == (code, True)


def test_what_docker_says_of_a_program_that_is_not_there_is_read(other: Other) -> None:
    run = other.begin(CAT)
    other.say(1, b'OCI runtime exec failed: exec: "nosuch": executable file not found in $PATH: unknown')
    causes = {"causes": [{"reason": "ExitCode", "message": "126"}]}
    other.say(3, json.dumps({"status": "Failure", "reason": "NonZeroExitCode", "details": causes}).encode())
    run.read(0)
    assert run.read(1).exit_code == 127


def test_an_api_server_that_does_not_answer_is_given_up(other: Other) -> None:
    with pytest.raises(ClusterUnreachable, match="has not begun in time"):
        begin_over(other.line, "/path?command=x", time.monotonic() + 0.1)
