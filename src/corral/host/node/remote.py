"""A node agent in a process of its own, called over its Unix socket or over SSH."""

import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from corral.core.model.errors import NodeRefused, NodeUnreachable, Refused
from corral.core.ports.node import News
from corral.host.node.agent_answers import MAX_ANSWER_BYTES, check_answer, read_answer
from corral.host.node.agent_calls import CarriedAgent, Method
from corral.host.node.agent_claim import ServerClaim
from corral.host.node.files.file_inspector import DEADLINE_S as INSPECTION_S
from corral.host.node.launches.local_launches import REFRESH_TIMEOUT_S
from corral.host.node.launches.meeting_door import TRY_S
from corral.host.node.protocol import (
    GREETING,
    OLDEST_WATCHED,
    VERSION,
    BadFrame,
    Closed,
    error_of,
    receive_frame,
    send,
)
from corral.host.runtimes.process.process_execution import ANSWER_WITHIN_S
from corral.untrusted import Unread, guarded
from corral.wire import to_plain

PATIENCE_S = 10.0
"""The time limit of an answer: an agent answers within milliseconds, and within seconds if its disk is busy."""

TAKES_S = {
    "launches.ready": REFRESH_TIMEOUT_S,
    # Reconciliation examines everything that jobs have left.
    "launches.reconcile": 30.0,
    "executions.begin": ANSWER_WITHIN_S,
    "host.inspect": INSPECTION_S,
    # The tree of 30,000 files is read, and a pack is written to a disk that may be busy.
    "trees.missing": 20.0,
    "trees.add": 20.0,
    "trees.read": 20.0,
    # A name may have to be looked up before.
    "host.reaches": 3 * TRY_S,
    # A vendor's tool is run twice, each time for a minute at most.
    "host.change_slices": 120.0,
}
"""The seconds that each of these calls may take. Other calls are answered at once, except the call for news, which
waits.
"""

DISTRUST_S = 30.0
"""The time for which a node stays closed after an answer that makes no sense."""

MAX_GREETING_BYTES = 16 * 1024

_MOST_IDLE = 4
"""The most idle connections that are kept for later calls."""


class AgentDial(Protocol):
    """The way to an agent. Its text names the agent, for a person: "the agent at /run/corral/agent.sock".

    Attributes:
        most_connections: the most connections at a time. Further calls wait for one.
        same_users: whether the users of the agent's host are those of this host.
    """

    most_connections: int
    same_users: bool

    def connect(self, until: float) -> socket.socket:
        """Return a new connection, on which the agent's greeting is next.

        Raises OSError, TimeoutError at `until` (time.monotonic), and NodeUnreachable.
        """
        ...

    def check(self, greeting: Mapping[str, Any]) -> None:
        """Look at the greeting of a new connection. Raises NodeUnreachable if this is not the right agent."""
        ...


class AgentSocket:
    """Implements AgentDial: the agent's own socket, on this host."""

    most_connections = 48

    def __init__(self, path: Path, claim: ServerClaim | None = None) -> None:
        """With a `claim` the agent serves one server, which presents it first."""
        self._path = str(path)
        self._claim = claim
        self.same_users = claim is None

    def __str__(self) -> str:
        return f"the agent at {self._path}"

    def connect(self, until: float) -> socket.socket:
        """Connect to the socket."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(max(0.001, until - time.monotonic()))
            connection.connect(self._path)
            if self._claim is not None:
                send(connection, to_plain(self._claim), until)
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self, greeting: Mapping[str, Any]) -> None:
        """Accept it: who may make files there is this user."""


class RemoteNode(CarriedAgent):
    """Implements `core.ports.node.NodeAgent` through a dial. Safe from any thread, each call on a connection of its
    own.

    A call without an answer within `patience_s` (plus the call's own time) raises NodeUnreachable; so does a call to a
    missing agent. The next call connects anew.

    The agent may be hostile. An answer that makes no sense raises NodeRefused, and so do calls for news in the next
    `distrust_s` seconds, so that nothing starts there. The same holds for an agent of a version that this server cannot
    use.

    Attributes:
        older: why nothing may start there, if the agent is of an older version that is still watched.
    """

    def __init__(self, dial: AgentDial, *, patience_s: float = PATIENCE_S, distrust_s: float = DISTRUST_S) -> None:
        super().__init__(self._call)
        if dial.same_users:
            self.accounts = None
        self._dial = dial
        self.older: str | None = None
        self._distrust: tuple[float, str] | None = None
        self._patience_s = patience_s
        self._distrust_s = distrust_s
        self._turns = threading.Semaphore(dial.most_connections)
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._closed = False

    def close(self) -> None:
        """Close the connections; the agent goes on. Waiting calls fail at their answer or their deadline."""
        self._closed = True
        self._drop_idle()

    def _call(self, method: Method, *values: Any, **named: Any) -> Any:
        call, arguments = str(method), {**dict(zip(method.parameters, values, strict=False)), **named}
        if call == "news.since":
            self._refuse_distrusted()
        self._refuse_start(call)
        answer = self._answered(call, arguments)
        failure = error_of(answer)
        if failure is not None:
            raise failure
        result = guarded(f"an answer of {self._dial}", partial(_sensible, method, arguments, answer))
        if isinstance(result, Refused | Unread):
            why = f"{self._dial} answered {method} in a way that makes no sense: {result!s:.300}"
            self._distrust = time.monotonic() + self._distrust_s, why
            raise NodeRefused(why)
        return self._cordoned(result) if self.older is not None and isinstance(result, News) else result

    def _answered(self, call: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call. Raises NodeUnreachable if there is none in time."""
        plain = {name: to_plain(value, compact=True) for name, value in arguments.items()}
        message = {"call": call, "arguments": plain}
        takes_s = arguments["timeout_s"] if call == "news.since" else TAKES_S.get(call, 0.0)
        within_s = takes_s + self._patience_s
        try:
            return self._in_turn(message, time.monotonic() + within_s)
        except TimeoutError:
            raise NodeUnreachable(f"{self._dial} did not answer within {within_s:g} s") from None
        except (OSError, Closed, BadFrame) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise NodeUnreachable(f"{self._dial} cannot be spoken to: {why}") from None

    def _refuse_distrusted(self) -> None:
        if self._distrust is not None:
            until, why = self._distrust
            if time.monotonic() < until:
                raise NodeRefused(why)
            self._distrust = None

    def _refuse_start(self, call: str) -> None:
        if self.older is not None and call == "launches.launch":
            raise NodeUnreachable(self.older)

    def _cordoned(self, news: News) -> News:
        """Return the news of an agent of an older version: nothing starts on its node."""
        return news if news.node is None else replace(news, node=replace(news.node, cordoned=self.older))

    def _in_turn(self, message: dict[str, Any], until: float) -> dict[str, Any]:
        if not self._turns.acquire(timeout=max(0.0, until - time.monotonic())):
            raise TimeoutError
        try:
            return self._answer(message, until)
        finally:
            self._turns.release()

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
        connection = self._connect(until)
        try:
            self._refuse_start(message["call"])
        except NodeUnreachable:
            connection.close()
            raise
        return self._exchange(connection, message, until)

    def _exchange(self, connection: socket.socket, message: dict[str, Any], until: float) -> dict[str, Any]:
        try:
            send(connection, message, until)
            answer = read_answer(receive_frame(connection, until, MAX_ANSWER_BYTES))
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
        connection = self._dial.connect(until)
        try:
            self._check(read_answer(receive_frame(connection, until, MAX_GREETING_BYTES)))
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, greeting: dict[str, Any]) -> None:
        self.older = check_greeting(greeting, str(self._dial))
        self._dial.check(greeting)


def _sensible(method: Method, arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> Any:
    """Return the result in an answer, or Refused, which says why it makes no sense."""
    try:
        result = method.read_result(answer.get("result"))
        check_answer(str(method), arguments, result)
    except Refused as refused:
        return refused
    return result


def check_greeting(greeting: Mapping[str, Any], agent: str) -> str | None:
    """Return why nothing may start on the node of the agent that greets, if its version is older; else None.

    Raises NodeRefused if the agent serves another server, or is of a version that this server cannot use, and
    NodeUnreachable if it cannot serve now. `agent` names it for a person.
    """
    failure = error_of(greeting)
    if isinstance(failure, NodeUnreachable):
        raise failure
    if failure is not None:
        raise NodeRefused(str(failure))
    version = greeting.get(GREETING)
    if type(version) is not int or not OLDEST_WATCHED <= version <= VERSION:
        raise NodeRefused(
            f"{agent} speaks version {version!r:.20} of the protocol and this server {VERSION}; "
            "install the same Corral on both hosts"
        )
    if version == VERSION:
        return None
    return (
        f"its agent is of an older version of Corral (protocol {version}, here {VERSION}): its jobs are watched, and "
        "nothing starts there before it is upgraded"
    )
