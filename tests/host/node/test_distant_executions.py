"""Commands inside jobs of a host that is 200 ms away: terminals, sizes, signals and much output."""

import base64
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

import pytest

from corral.core.model.jobs.input import TerminalSize
from corral.core.model.runs.launch import LaunchPhase
from corral.core.ports.node import InputTaken
from corral.core.ports.runtime import InnerCommand
from corral.host.node.remote import AgentSocket, RemoteNode
from tests.host.node.conftest import RemoteHost, a_launch

ONE_WAY_S = 0.1


class DistantSocket(AgentSocket):
    """An agent's socket, on whose connections every byte takes ONE_WAY_S."""

    def connect(self, until: float) -> socket.socket:
        near, far = socket.socketpair()
        there = super().connect(until)
        there.settimeout(None)
        for one, other in ((far, there), (there, far)):
            threading.Thread(target=_delay, args=(one, other), daemon=True).start()
        return near


def _delay(one: socket.socket, other: socket.socket) -> None:
    under_way: deque[tuple[float, bytes]] = deque()
    with suppress(OSError, ValueError):
        while True:
            left_s = under_way[0][0] - time.monotonic() if under_way else None
            if left_s is not None and left_s <= 0:
                other.sendall(under_way.popleft()[1])
            elif select.select([one], [], [], left_s)[0]:
                data = one.recv(1 << 16)
                if not data:
                    break
                under_way.append((time.monotonic() + ONE_WAY_S, data))
    for end in (one, other):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@pytest.fixture
def distant(remote: RemoteHost) -> Iterator[RemoteNode]:
    """The node, seen from afar, with a job that runs."""
    remote.node.launches.reconcile((), ())
    remote.node.launches.launch(a_launch(1, "sleep", "1000"))
    remote.wait("1.1", LaunchPhase.RUNNING)
    node = RemoteNode(DistantSocket(remote.socket))
    yield node
    node.close()


class Talk:
    """A command, with its output so far."""

    def __init__(self, node: RemoteNode, *words: str, terminal: TerminalSize | None = None) -> None:
        self._of = node.executions
        self._sent = self._sequence = 0
        self.heard = b""
        self.exit_code: int | None = None
        self._of.begin("one", "1.1", InnerCommand(words, terminal, "vt100" if terminal else "", stdin=True))

    def say(self, data: bytes) -> None:
        taken = self._of.write("one", self._sent, base64.b64encode(data).decode(), end=False)
        assert taken is not None
        self._sent += len(data)
        assert taken.offset == self._sent

    def resize(self, size: TerminalSize) -> None:
        self._of.resize("one", size)

    def until(self, text: bytes | None, within_s: float = 60.0) -> float:
        """Read until the text has come (None: the end). Return how long that took."""
        began = time.monotonic()
        while self.exit_code is None and (text is None or text not in self.heard):
            piece = self._of.read("one", self._sequence)
            assert piece is not None
            self._sequence, self.exit_code = piece.sequence, piece.exit_code
            self.heard += base64.b64decode(piece.stdout)
            assert time.monotonic() - began < within_s, self.heard[-200:]
        assert text is None or text in self.heard
        return time.monotonic() - began


def test_a_terminal_has_its_size_its_keys_and_its_signals(distant: RemoteNode) -> None:
    talk = Talk(distant, "sh", terminal=TerminalSize(31, 97))
    talk.say(b"stty size; echo $TERM\n")
    talk.until(b"31 97\r\nvt100")
    talk.resize(TerminalSize(12, 34))
    talk.say(b"stty size\n")
    talk.until(b"12 34")
    talk.say(b"sleep 1000\n")
    talk.until(b"sleep 1000\r\n")
    talk.say(b"\x03")
    talk.say(b"echo interrupted $?\n")
    talk.until(b"interrupted 130")
    talk.say(b"exit 7\n")
    talk.until(None)
    assert talk.exit_code == 7


def test_a_key_is_answered_after_two_round_trips_and_output_comes_whole(distant: RemoteNode) -> None:
    talk = Talk(distant, "sh", "-c", "read line; echo $line; head -c 2000000 /dev/zero")
    talk.say(b"key\n")
    assert talk.until(b"key\n") < 10
    talk.until(None)
    assert (talk.heard, talk.exit_code) == (b"key\n" + bytes(2_000_000), 0)


def test_input_that_was_taken_before_is_no_surprise_from_afar(distant: RemoteNode) -> None:
    talk = Talk(distant, "cat")
    talk.say(b"one\n")
    again = distant.executions.write("one", 0, base64.b64encode(b"o").decode(), end=False)
    kept = distant.executions.write("one", 0, "", end=False)
    assert again == kept == InputTaken(4, True)
    talk.until(b"one\n")


def test_a_command_is_ended_from_afar(distant: RemoteNode) -> None:
    talk = Talk(distant, "sleep", "1000")
    distant.executions.end("one")
    assert distant.executions.read("one", 0) is None
    assert talk.exit_code is None
