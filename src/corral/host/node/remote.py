"""A node agent in a process of its own, called over its Unix socket."""

import socket
import threading
import time
from pathlib import Path
from typing import Any

from corral.core.model.errors import BackendFailed, NodeUnreachable, Refused
from corral.host.node.agent_calls import CarriedAgent, Method
from corral.host.node.files.file_inspector import DEADLINE_S as INSPECTION_S
from corral.host.node.launches.local_launches import REFRESH_TIMEOUT_S
from corral.host.node.protocol import GREETING, VERSION, BadFrame, Closed, error_of, receive, send
from corral.host.runtimes.process.process_execution import ANSWER_WITHIN_S
from corral.wire import to_plain

PATIENCE_S = 10.0
"""The time limit of an answer: an agent answers within milliseconds, and within seconds if its disk is busy."""

TAKES_S = {
    "launches.ready": REFRESH_TIMEOUT_S,
    # Reconciliation examines everything that jobs have left.
    "launches.reconcile": 30.0,
    "executions.begin": ANSWER_WITHIN_S,
    "host.inspect": INSPECTION_S,
    # A vendor's tool is run twice, each time for a minute at most.
    "host.change_slices": 120.0,
}
"""The seconds that each of these calls may take. Other calls are answered at once, except the call for news, which
waits.
"""

_MOST_IDLE = 4
"""The most idle connections that are kept for later calls."""


class RemoteNode(CarriedAgent):
    """Implements `core.ports.node.NodeAgent` through a socket. Safe from any thread, each call on a connection of its
    own.

    A call without an answer within `patience_s` (plus the call's own time) raises NodeUnreachable; so does a call to a
    missing agent. The next call connects anew.
    """

    def __init__(self, path: Path, *, patience_s: float = PATIENCE_S) -> None:
        super().__init__(self._call)
        self._path = str(path)
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._closed = False

    def close(self) -> None:
        """Close the connections; the agent goes on. Waiting calls fail at their answer or their deadline."""
        self._closed = True
        self._drop_idle()

    def _call(self, method: Method, *values: Any, **named: Any) -> Any:
        call, arguments = str(method), {**dict(zip(method.parameters, values, strict=False)), **named}
        message = {"call": call, "arguments": {name: to_plain(value) for name, value in arguments.items()}}
        takes_s = arguments["timeout_s"] if call == "news.since" else TAKES_S.get(call, 0.0)
        within_s = takes_s + self._patience_s
        until = time.monotonic() + within_s
        try:
            answer = self._answer(message, until)
        except TimeoutError:
            raise NodeUnreachable(f"the agent at {self._path} did not answer within {within_s:g} s") from None
        except (OSError, Closed, BadFrame) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise NodeUnreachable(f"the agent at {self._path} cannot be spoken to: {why}") from None
        failure = error_of(answer)
        if failure is not None:
            raise failure
        try:
            return method.read_result(answer.get("result"))
        except Refused as refused:
            raise BackendFailed(f"the agent at {self._path} answered {method} in an unknown way: {refused}") from None

    def _answer(self, message: dict[str, Any], until: float) -> dict[str, Any]:
        """Send a call and return its answer. Raises OSError, TimeoutError, Closed, BadFrame, and NodeUnreachable for an
        agent of another version.
        """
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._exchange(kept, message, until)
            except (ConnectionError, Closed):
                # The agent has ended since the last call, and another may have replaced it. Every call may be repeated.
                self._drop_idle()
        return self._exchange(self._connect(until), message, until)

    def _exchange(self, connection: socket.socket, message: dict[str, Any], until: float) -> dict[str, Any]:
        try:
            send(connection, message, until)
            answer = receive(connection, until)
        except BaseException:
            # A late answer on this connection would be taken for the answer to the next call.
            connection.close()
            raise
        with self._lock:
            if not self._closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return answer
        connection.close()
        return answer

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connect(self, until: float) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(max(0.001, until - time.monotonic()))
            connection.connect(self._path)
            self._check(receive(connection, until))
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, greeting: dict[str, Any]) -> None:
        failure = error_of(greeting)
        if failure is not None:
            raise failure
        version = greeting.get(GREETING)
        if version != VERSION:
            raise NodeUnreachable(
                f"the agent at {self._path} speaks version {version!r:.20} of the protocol and this server {VERSION}; "
                "install the same Corral on both hosts"
            )
