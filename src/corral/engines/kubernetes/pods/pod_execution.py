"""A command that runs in the container of a job's pod, over a connection to the API server."""

import re
import ssl
import threading
import time
from contextlib import suppress

from wsproto.utilities import ProtocolError

from corral.core.model.jobs.input import TerminalSize
from corral.core.ports.runtime import InnerCommand, InnerOutput
from corral.engines.kubernetes.cluster.connection import OpenLine
from corral.engines.kubernetes.cluster.exec_talk import STDERR, STDOUT, ExecTalk, exit_code_of

PIECE_BYTES = 128 * 1024
"""The most bytes received at once. No more are received before the caller has taken them."""

PING_S = 20.0
"""The interval of pings. Proxies before an API server break off connections that are silent for a minute."""

_READ_BYTES = 1 << 16
_FAILED, _CANNOT_RUN, _NOT_FOUND = 125, 126, 127
_MOST_MESSAGE = 1000
_LEAVING = b"\x03\x04"
_WAIT = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class PodExecution:
    """Implements `core.ports.runtime.Execution`. Safe from any thread. It has no thread of its own: the caller moves
    the data.
    """

    def __init__(self, line: OpenLine, talk: ExecTalk, command: InnerCommand) -> None:
        """`talk` must have begun the command on `line`."""
        self._lock = threading.Lock()
        self._line = line
        self._talk = talk
        self._is_terminal = command.terminal is not None
        self._takes_input = command.stdin or self._is_terminal
        self._taken = 0
        self._unsent = bytearray()
        self._sent_at_s = time.monotonic()
        self._sequence = 0
        self._last = InnerOutput(0)
        self._first = b""
        line.socket.setblocking(False)
        if command.terminal is not None:
            self.resize(command.terminal)

    def write(self, offset: int, data: bytes, *, end: bool) -> tuple[int, bool]:
        with self._lock:
            new = data[self._taken - offset :] if offset <= self._taken else b""
            if new and self._takes_input and not self._unsent:
                self._unsent += self._talk.input(new)
                self._taken += len(new)
            if end and self._takes_input and self._taken == offset + len(data) and not self._is_terminal:
                self._unsent += self._talk.end_of_input()
                self._takes_input = False
            self._send()
            return self._taken, self._takes_input and not self._talk.over

    def read(self, after: int) -> InnerOutput:
        with self._lock:
            if after < self._sequence:
                return self._last
            self._receive()
            self._send()
            following = self._sequence + 1
            if self._talk.has_output:
                self._last = InnerOutput(following, self._talk.taken(STDOUT), self._talk.taken(STDERR))
                self._first = (self._first + self._last.stdout)[:_MOST_MESSAGE]
            elif self._talk.over:
                self._last = self._ended(following)
            else:
                return InnerOutput(self._sequence)
            self._sequence = following
            return self._last

    def resize(self, size: TerminalSize) -> None:
        with self._lock:
            # Sizes do not pile up while the connection accepts no data.
            if self._is_terminal and len(self._unsent) < _READ_BYTES:
                self._unsent += self._talk.resize(size)
                self._send()

    def close(self) -> None:
        """Close the connection. Kubernetes has no call that ends a command.

        The command's input ends. At a terminal the command gets Ctrl-C and Ctrl-D.
        """
        with self._lock:
            if self._is_terminal:
                self._receive()
                self._unsent += self._talk.input(_LEAVING)
                self._send()
            self._line.close()
            self._talk.over = True

    def _receive(self) -> None:
        received = 0
        while received < PIECE_BYTES and not self._talk.over:
            try:
                data = self._line.socket.recv(_READ_BYTES)
            except _WAIT:
                return
            except OSError:
                data = b""
            received += len(data)
            try:
                self._unsent += self._talk.receive(data)
            except ProtocolError:
                self._talk.over = True

    def _send(self) -> None:
        now_s = time.monotonic()
        if not self._unsent and now_s - self._sent_at_s > PING_S:
            self._unsent += self._talk.ping()
        while self._unsent and not self._talk.over:
            try:
                count = self._line.socket.send(self._unsent)
            except _WAIT:
                return
            except OSError:
                # Read the data that came before; then the connection is at its end.
                self._takes_input = False
                self._unsent.clear()
                return
            del self._unsent[:count]
            self._sent_at_s = now_s

    def _ended(self, sequence: int) -> InnerOutput:
        with suppress(OSError):
            self._line.close()
        status = self._talk.status()
        if status is None:
            said = "the connection to the command broke off: its job has ended, or the API server or its node is gone"
            return InnerOutput(sequence, exit_code=_FAILED, message=said)
        code = exit_code_of(status)
        if code is not None:
            # Docker has said why already, and does not distinguish a missing command from one that cannot run.
            if code == _CANNOT_RUN and self._first.startswith(b"OCI runtime exec failed"):
                code = failure_code(self._first.decode(errors="replace"))
            return InnerOutput(sequence, exit_code=code)
        said = str(status.get("message") or "its node does not say why")[:_MOST_MESSAGE]
        return InnerOutput(sequence, exit_code=failure_code(said), message=f"the command could not be run: {said}")


def failure_code(said: str) -> int:
    """Return the exit code that a shell gives for a command that cannot start, from the words of a container
    runtime.
    """
    if re.search(r"executable file not found|no such file or directory", said):
        return _NOT_FOUND
    return _CANNOT_RUN if "permission denied" in said else _FAILED
