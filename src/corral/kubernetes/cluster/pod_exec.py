"""Commands run in containers of pods, over a WebSocket. Needs wsproto, which servers have.

What a container sends is its user's: it is bounded, and nothing in it is taken for more than text.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import ProtocolError

from corral.kubernetes.cluster.answers import error_of
from corral.kubernetes.cluster.connection import OpenLine, Response
from corral.kubernetes.cluster.errors import ClusterFailed, ClusterUnreachable
from corral.kubernetes.cluster.json_text import read_json
from corral.kubernetes.cluster.objects import mapping, sequence
from corral.kubernetes.cluster.resource import PODS

PROTOCOL = "v4.channel.k8s.io"
MOST_BYTES = 1 << 20
_READ_BYTES = 1 << 16
_STDOUT, _STDERR, _ERROR = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did.

    Attributes:
        exit_code: its own; None where it could not be run, which `stderr` then says.
        stdout: what it wrote, at most MOST_BYTES.
        stderr: the same.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes


def exec_target(namespace: str, pod: str, container: str, command: Sequence[str]) -> str:
    """The address at which the API server runs a command."""
    query = [("command", word) for word in command]
    query += [("container", container), ("stdout", "true"), ("stderr", "true")]
    return f"{PODS.path(namespace, pod, 'exec')}?{urlencode(query)}"


def run_over(line: OpenLine, target: str, deadline_s: float) -> Ran:
    """Run the command at `target` by `deadline_s` of the monotonic clock. What it began may go on after that.

    Raises the errors of `corral.kubernetes.cluster.errors`.
    """
    talk = _Talk()
    socket = WSConnection(ConnectionType.CLIENT)
    try:
        headers = [(name.encode(), value.encode()) for name, value in line.headers.items()]
        line.socket.sendall(
            socket.send(Request(line.host, line.prefix + target, subprotocols=[PROTOCOL], extra_headers=headers))
        )
        while not talk.over:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            line.socket.settimeout(left_s)
            data = line.socket.recv(_READ_BYTES)
            socket.receive_data(data or None)
            for event in socket.events():
                if isinstance(event, Ping):
                    line.socket.sendall(socket.send(event.response()))
                talk.hear(event)
            if not data:
                break
    except TimeoutError:
        raise ClusterUnreachable(f"{target.partition('?')[0]}: the command has not ended in time") from None
    except (OSError, ProtocolError) as error:
        raise ClusterUnreachable(f"{target.partition('?')[0]}: {error}") from None
    finally:
        line.close()
    return talk.ran()


class _Talk:
    """What was said on the channels so far."""

    def __init__(self) -> None:
        self.over = False
        self._channels: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray(), _ERROR: bytearray()}
        self._message = bytearray()
        self._refused: int | None = None
        self._refusal = bytearray()

    def hear(self, event: object) -> None:
        match event:
            case RejectConnection(status_code=code, has_body=has_body):
                self._refused = code
                self.over = not has_body
            case RejectData(data=data, body_finished=finished):
                self._refusal += data
                self.over = finished
            case BytesMessage(data=data) | TextMessage(data=data):
                self._message += data.encode() if isinstance(data, str) else bytes(data)
                if event.message_finished:
                    self._take(bytes(self._message))
                    self._message.clear()
            case CloseConnection():
                self.over = True
            case AcceptConnection() | _:
                return

    def ran(self) -> Ran:
        if self._refused is not None:
            raise error_of(Response(self._refused, bytes(self._refusal)), "create pods/exec")
        status = _status(bytes(self._channels[_ERROR]))
        if status is None:
            raise ClusterFailed("Kubernetes: create pods/exec: it does not say how the command ended")
        stdout, stderr = bytes(self._channels[_STDOUT]), bytes(self._channels[_STDERR])
        code = exit_code_of(status)
        if code is None:
            stderr += str(status.get("message") or "").encode()
        return Ran(code, stdout, stderr)

    def _take(self, message: bytes) -> None:
        """The first byte names the channel."""
        channel = self._channels.get(message[0]) if message else None
        if channel is not None:
            channel += message[1 : 1 + MOST_BYTES - len(channel)]
        # The status comes last, and not every kubelet closes then.
        self.over = bool(message) and message[0] == _ERROR and len(message) > 1


def _status(written: bytes) -> Mapping[str, Any] | None:
    try:
        status = read_json(written)
    except ValueError:
        return None
    return mapping(status) or None


def exit_code_of(status: Mapping[str, Any]) -> int | None:
    """The exit code in the status of an ended command; None where it was not run."""
    if status.get("status") == "Success":
        return 0
    if status.get("reason") != "NonZeroExitCode":
        return None
    for cause in sequence(mapping(status.get("details")).get("causes")):
        code = str(cause.get("message"))
        if cause.get("reason") == "ExitCode" and re.fullmatch(r"[0-9]{1,3}", code):
            return int(code)
    return None
