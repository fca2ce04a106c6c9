"""A node agent in a process of its own, spoken to over its Unix socket."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from corral.core.model.alerts.notification import Notification
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.errors import BackendFailed, NodeUnreachable, Refused
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.runs.launch import Launch
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.node import (
    ExecOutput,
    FileFinding,
    InputTaken,
    LogChunk,
    News,
    NodeAgent,
    ProcessFound,
    Readiness,
    Reconciled,
    Rendezvous,
    Reports,
    SliceChange,
)
from corral.core.ports.runtime import InnerCommand
from corral.host.node.files.file_inspector import DEADLINE_S as INSPECTION_S
from corral.host.node.local import REFRESH_TIMEOUT_S
from corral.host.node.protocol import GREETING, METHODS, VERSION, BadFrame, Closed, error_of, receive, send
from corral.host.runtimes.process.process_execution import ANSWER_WITHIN_S

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_S = 10.0
"""The time limit of an answer: an agent answers within milliseconds, and within seconds if its disk is busy."""

SLICES_S = 120.0
"""A vendor's tool is run twice, each time for a minute at most."""

RECONCILE_S = 30.0
"""It looks at everything that jobs have left."""

_MOST_IDLE = 4
"""The most connections kept for later calls."""


class RemoteNode:
    """Implements `core.ports.node.NodeAgent` through a socket. Safe from any thread, each call on a connection of its
    own.

    A call without an answer within `patience_s` (plus the call's own time) raises NodeUnreachable; so does a call to a
    missing agent. The next call connects anew.
    """

    def __init__(self, path: Path, *, patience_s: float = PATIENCE_S) -> None:
        self._path = str(path)
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._closed = False

    def news(self, after: int, timeout_s: float) -> News:
        return self._call(timeout_s, NodeAgent.news, after, timeout_s)

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        return self._call(REFRESH_TIMEOUT_S, NodeAgent.ready, uuids)

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        return self._call(RECONCILE_S, NodeAgent.reconcile, allocated, waiting)

    def rendezvous(self, launch_id: str) -> Rendezvous:
        return self._call(0.0, NodeAgent.rendezvous, launch_id)

    def launch(self, launch: Launch) -> None:
        self._call(0.0, NodeAgent.launch, launch)

    def stop(self, launch_id: str) -> None:
        self._call(0.0, NodeAgent.stop, launch_id)

    def signal(self, launch_id: str, name: str) -> None:
        self._call(0.0, NodeAgent.signal, launch_id, name)

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        self._call(0.0, NodeAgent.set_time_limit, launch_id, time_limit_s)

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        return self._call(0.0, NodeAgent.reports, launch_ids)

    def declare_lost(self, launch_id: str, ran: bool) -> bool:
        return self._call(0.0, NodeAgent.declare_lost, launch_id, ran)

    def forget(self, launch_id: str, keep_scratch: bool) -> None:
        self._call(0.0, NodeAgent.forget, launch_id, keep_scratch)

    def rescan(self, allocated: tuple[Launch, ...]) -> tuple[str, ...]:
        return self._call(0.0, NodeAgent.rescan, allocated)

    def process(self, pid: int) -> ProcessFound | None:
        return self._call(0.0, NodeAgent.process, pid)

    def read_log(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        return self._call(0.0, NodeAgent.read_log, job_id, rank, offset, max_bytes, mark)

    def log_written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        return self._call(0.0, NodeAgent.log_written_since, job_id, rank, ago_s, mark)

    def write_input(self, launch_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        return self._call(0.0, NodeAgent.write_input, launch_id, offset, data, end)

    def resize_terminal(self, launch_id: str, size: TerminalSize) -> None:
        self._call(0.0, NodeAgent.resize_terminal, launch_id, size)

    def begin_exec(self, exec_id: str, launch_id: str, command: InnerCommand) -> None:
        self._call(ANSWER_WITHIN_S, NodeAgent.begin_exec, exec_id, launch_id, command)

    def write_exec(self, exec_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        return self._call(0.0, NodeAgent.write_exec, exec_id, offset, data, end)

    def resize_exec(self, exec_id: str, size: TerminalSize) -> None:
        self._call(0.0, NodeAgent.resize_exec, exec_id, size)

    def read_exec(self, exec_id: str, after: int) -> ExecOutput | None:
        return self._call(0.0, NodeAgent.read_exec, exec_id, after)

    def end_exec(self, exec_id: str) -> None:
        self._call(0.0, NodeAgent.end_exec, exec_id)

    def note(self, job_id: str, rank: int, line: str) -> None:
        self._call(0.0, NodeAgent.note, job_id, rank, line)

    def notify(self, notification: Notification) -> bool:
        return self._call(0.0, NodeAgent.notify, notification)

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        return self._call(INSPECTION_S, NodeAgent.inspect, queries, who)

    def change_slices(self, uuid: str, change: SliceChange) -> SlicePlan:
        return self._call(SLICES_S, NodeAgent.change_slices, uuid, change)

    def close(self) -> None:
        """Close the connections; the agent goes on. Waiting calls fail at their answer or their deadline."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _call(
        self, takes_s: float, method: Callable[Concatenate[Any, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        known = METHODS[method.__name__]
        message = {"call": known.name, "arguments": known.plain_arguments(*arguments, *named.values())}
        until = time.monotonic() + takes_s + self._patience_s
        try:
            answer = self._answer(message, until)
        except TimeoutError:
            waited_s = takes_s + self._patience_s
            raise NodeUnreachable(f"the agent at {self._path} did not answer within {waited_s:g} s") from None
        except (OSError, Closed, BadFrame) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise NodeUnreachable(f"the agent at {self._path} cannot be spoken to: {why}") from None
        failure = error_of(answer)
        if failure is not None:
            raise failure
        try:
            return cast(T, known.read_result(answer.get("result")))
        except Refused as refused:
            raise BackendFailed(
                f"the agent at {self._path} answered {known.name} in an unknown way: {refused}"
            ) from None

    def _answer(self, message: dict[str, Any], until: float) -> dict[str, Any]:
        """Raises OSError, TimeoutError, Closed, BadFrame; NodeUnreachable for an agent of another version."""
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._exchange(kept, message, until)
            except (ConnectionError, Closed):
                # Its agent has ended since the last call; another may have come. Every call may be repeated.
                self._drop_idle()
        return self._exchange(self._connect(until), message, until)

    def _exchange(self, connection: socket.socket, message: dict[str, Any], until: float) -> dict[str, Any]:
        try:
            send(connection, message, until)
            answer = receive(connection, until)
        except BaseException:
            # A late answer on it would be taken for that of the next call.
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
