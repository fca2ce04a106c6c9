"""The protocol between an API server and a client for a command in a container, without the socket.

It is a WebSocket in which the first byte of each message names a channel. It needs wsproto, a dependency of servers.
The container's output is untrusted: it is only ever taken as bytes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from corral.core.model.jobs.input import TerminalSize
from corral.engines.kubernetes.cluster.answers import error_of
from corral.engines.kubernetes.cluster.connection import Response
from corral.engines.kubernetes.cluster.json_text import read_json
from corral.engines.kubernetes.cluster.objects import mapping, sequence
from corral.engines.kubernetes.cluster.resource import PODS

STDOUT, STDERR = 1, 2
MOST_BYTES = 1 << 20
"""The most bytes kept of a channel that is not read."""

_STDIN, _ERROR, _RESIZE, _CLOSE = 0, 3, 4, 255
_PROTOCOL = "v4.channel.k8s.io"
_PROTOCOL_WITH_CLOSE = "v5.channel.k8s.io"
"""The version of the protocol that can report the end of the input. API servers have it from Kubernetes 1.30 on."""


def exec_target(
    namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool = False, terminal: bool = False
) -> str:
    """Return the path and query by which the API server runs a command in a container."""
    query = [("command", word) for word in command]
    query += [("container", container), ("stdout", "true")]
    # At a terminal stdout and stderr share one channel.
    query += [("tty", "true")] if terminal else [("stderr", "true")]
    query += [("stdin", "true")] if stdin else []
    return f"{PODS.path(namespace, pod, 'exec')}?{urlencode(query)}"


class ExecTalk:
    """The protocol state of one command.

    Attributes:
        begun: the API server has agreed to run it.
        over: nothing more comes.
    """

    def __init__(self) -> None:
        self.begun = False
        self.over = False
        self._socket = WSConnection(ConnectionType.CLIENT)
        self._channels: dict[int, bytearray] = {STDOUT: bytearray(), STDERR: bytearray(), _ERROR: bytearray()}
        self._channel: int | None = None
        self._can_close = False
        self._refused: int | None = None
        self._refusal = bytearray()

    def ask(self, host: str, target: str, headers: Mapping[str, str], *, ends_input: bool = False) -> bytes:
        """Return the bytes of the request. With `ends_input` it asks for a protocol that can end the command's
        input.
        """
        protocols = [*([_PROTOCOL_WITH_CLOSE] if ends_input else []), _PROTOCOL]
        extra = [(name.encode(), value.encode()) for name, value in headers.items()]
        return self._socket.send(Request(host, target, subprotocols=protocols, extra_headers=extra))

    def receive(self, data: bytes) -> bytes:
        """Take in received bytes (b"" at the end of the connection), and return the bytes to send in answer.

        Raises wsproto's ProtocolError.
        """
        answers = b""
        self._socket.receive_data(data or None)
        for event in self._socket.events():
            if isinstance(event, Ping) and self._socket.state is ConnectionState.OPEN:
                answers += self._socket.send(event.response())
            self._hear(event)
        self.over = self.over or not data
        return answers

    def input(self, data: bytes) -> bytes:
        """Return the message that passes `data` to the command's input."""
        return self._say(_STDIN, data)

    def end_of_input(self) -> bytes:
        """Return the message that ends the command's input, or b"" if the API server knows no such message."""
        return self._say(_CLOSE, bytes([_STDIN])) if self._can_close else b""

    def resize(self, size: TerminalSize) -> bytes:
        """Return the message with the size of the terminal."""
        return self._say(_RESIZE, json.dumps({"Width": size.columns, "Height": size.rows}).encode())

    def ping(self) -> bytes:
        """Return a ping, which shows that this side is still connected."""
        return self._socket.send(Ping()) if self._socket.state is ConnectionState.OPEN else b""

    def taken(self, channel: int) -> bytes:
        """Return the bytes of a channel since the last call."""
        data = bytes(self._channels[channel])
        self._channels[channel].clear()
        return data

    @property
    def has_output(self) -> bool:
        """Whether there is output that was not taken yet."""
        return bool(self._channels[STDOUT] or self._channels[STDERR])

    def status(self) -> Mapping[str, Any] | None:
        """Return the final status from the API server, or None. Raises the server's error if it refused the command."""
        if self._refused is not None:
            raise error_of(Response(self._refused, bytes(self._refusal)), "create pods/exec")
        try:
            return mapping(read_json(bytes(self._channels[_ERROR]))) or None
        except ValueError:
            return None

    def _say(self, channel: int, data: bytes) -> bytes:
        if self._socket.state is not ConnectionState.OPEN:
            return b""
        return self._socket.send(BytesMessage(bytes([channel]) + data))

    def _hear(self, event: Event) -> None:
        match event:
            case AcceptConnection(subprotocol=protocol):
                self.begun, self._can_close = True, protocol == _PROTOCOL_WITH_CLOSE
            case RejectConnection(status_code=code, has_body=has_body):
                self._refused = code
                self.over = not has_body
            case RejectData(data=data, body_finished=finished):
                self._refusal += data[: MOST_BYTES - len(self._refusal)]
                self.over = finished
            case BytesMessage(data=data) | TextMessage(data=data):
                self._take(data.encode() if isinstance(data, str) else bytes(data), whole=event.message_finished)
            case CloseConnection():
                self.over = True

    def _take(self, data: bytes, *, whole: bool) -> None:
        """Store a part of a message. The first byte of a message is its channel; `whole` marks the last part."""
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        channel = self._channels.get(-1 if self._channel is None else self._channel)
        if channel is not None:
            channel += data[: MOST_BYTES - len(channel)]
        if whole:
            # The status comes last. Not every kubelet closes the connection after it.
            self.over = self.over or (self._channel == _ERROR and bool(self._channels[_ERROR]))
            self._channel = None


def exit_code_of(status: Mapping[str, Any]) -> int | None:
    """Return the exit code in the status of an ended command; None if the command was not run."""
    if status.get("status") == "Success":
        return 0
    if status.get("reason") != "NonZeroExitCode":
        return None
    for cause in sequence(mapping(status.get("details")).get("causes")):
        code = str(cause.get("message"))
        if cause.get("reason") == "ExitCode" and re.fullmatch(r"[0-9]{1,3}", code):
            return int(code)
    return None
