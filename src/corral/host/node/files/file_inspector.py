"""Inspects files of users for the server: it asks a worker process, and gives the worker up at a deadline.

Whatever a user does to an inspected file, or to the worker, costs the server at most the time until the deadline.
"""

import contextlib
import json
import logging
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

from corral.core.ports.host import Credentials, FileQuery
from corral.core.preflight.file_facts import FileFacts, read_facts
from corral.host.node.files.inspection_worker import MOST_ORDER_BYTES, TAKEN, command
from corral.untrusted import Unread, guarded
from corral.wire import from_plain

DEADLINE_S = 3.0
TAKEN_WITHIN_S = 1.0
"""The time within which the worker takes an order. A worker that takes longer is stopped or dead, and is replaced."""
_UP_WITHIN_S = 20.0
"""The time for a new worker to start. On a busy host a shorter time would replace the worker before it has started."""
_QUERIES_IN_AN_ORDER = 100
_MOST_ANSWER_BYTES = 4 * 1024 * 1024
_READ_BYTES = 64 * 1024

log = logging.getLogger(__name__)


class HostFileInspector:
    """Inspects files on this host with the rights of their users. Safe from any thread.

    Only root can read as another user; any other server reads as its own user, who also runs every job.
    """

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._becomes = os.geteuid() == 0
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the current worker process, None if there is none."""
        return None if self._worker is None else self._worker.pid

    def start(self) -> None:
        """Start the worker process, so that it is ready for the first query."""
        with contextlib.suppress(OSError):
            self._current()

    def close(self) -> None:
        """End the worker process."""
        with self._lock:
            if self._worker is not None:
                self._worker.end()
                self._worker = None

    def inspect(self, queries: Sequence[FileQuery], who: Credentials | None) -> dict[FileQuery, FileFacts]:
        """Return the findings with the rights of `who`. Queries that took too long or could not be asked are
        left out.
        """
        until = time.monotonic() + self._deadline_s
        found: dict[FileQuery, FileFacts] = {}
        for order in _orders(dict.fromkeys(queries)):
            answers = self._answers(order, who if self._becomes else None, until)
            found.update((query, facts) for query, facts in zip(order, answers, strict=False) if facts is not None)
            if time.monotonic() >= until:
                break
        return found

    def _answers(self, queries: list[FileQuery], who: Credentials | None, until: float) -> list[FileFacts | None]:
        for _ in range(2):
            try:
                worker = self._current()
                text = worker.ask(queries, who, until)
            except OSError as error:
                log.warning("no file of a user can be inspected: %s", error.strerror)
                return []
            if text is not None:
                return [_facts(line) for line in text.split(b"\n")[:-1]]
            log.warning("process %s, which inspects files of users, does not answer and is replaced", worker.pid)
            self._give_up(worker)
        return []

    def _current(self) -> "_Worker":
        with self._lock:
            if self._worker is None:
                self._worker = _Worker()
            return self._worker

    def _give_up(self, worker: "_Worker") -> None:
        with self._lock:
            if self._worker is worker:
                self._worker = None
                worker.end()


class InProcessFileInspector:
    """Inspects files in this process, for callers that provide all inspected files themselves."""

    def inspect(self, queries: Sequence[FileQuery], who: Credentials | None) -> dict[FileQuery, FileFacts]:
        """Return the same as `HostFileInspector.inspect`, whatever `who` is."""
        return {query: read_facts(query) for query in queries}


class _Worker:
    """A worker process, and the socket to it."""

    def __init__(self) -> None:
        self._up_by = time.monotonic() + _UP_WITHIN_S
        """The time until which the worker may be starting; a time in the past once it has taken an order."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, queries: list[FileQuery], who: Credentials | None, until: float) -> bytes | None:
        """Send the queries, and return the bytes of the answers that came until the deadline, a line for each query.

        None if the worker did not take the order. Raises OSError.
        """
        now = time.monotonic()
        order = json.dumps({"queries": queries, "who": who, "within_s": until - now}).encode()
        if len(order) > MOST_ORDER_BYTES:
            return b""
        taken_until = min(until, max(now + TAKEN_WITHIN_S, self._up_by))
        mine, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            try:
                sent = self._send(order, theirs, taken_until)
            finally:
                os.close(theirs)
            if not sent or _read(mine, 1, taken_until) != TAKEN:
                # If the remaining time was too short to take an order, the worker is not at fault.
                return b"" if taken_until == until <= time.monotonic() else None
            self._up_by = now
            return _read(mine, _MOST_ANSWER_BYTES, until)
        finally:
            os.close(mine)

    def _send(self, order: bytes, pipe: int, until: float) -> bool:
        """Send an order. Return whether it was sent in time."""
        room = select.poll()
        try:
            room.register(self._socket, select.POLLOUT)
            while room.poll(max(0.0, until - time.monotonic()) * 1000):
                with contextlib.suppress(BlockingIOError):
                    socket.send_fds(self._socket, [order], [pipe], socket.MSG_NOSIGNAL)
                    return True
        except (OSError, ValueError):
            # Another thread found it dead, and has closed the socket.
            return False
        return False

    def end(self) -> None:
        """Kill the process and its children."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


def _read(pipe: int, most_bytes: int, until: float) -> bytes:
    """Return the bytes until the pipe is closed, `most_bytes` have come, or the time is up."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    pieces: list[bytes] = []
    left = most_bytes
    while left and poll.poll(max(0.0, until - time.monotonic()) * 1000):
        piece = os.read(pipe, min(left, _READ_BYTES))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _orders(queries: Sequence[FileQuery] | dict[FileQuery, None]) -> Iterator[list[FileQuery]]:
    """Yield the queries in portions that fit into a message; a query that does not fit alone is left out."""
    order: list[FileQuery] = []
    size = 0
    for query in queries:
        length = len(json.dumps(query))
        if length > MOST_ORDER_BYTES // 2:
            continue
        if order and (len(order) >= _QUERIES_IN_AN_ORDER or size + length > MOST_ORDER_BYTES // 2):
            yield order
            order, size = [], 0
        order.append(query)
        size += length
    if order:
        yield order


def _facts(line: bytes) -> FileFacts | None:
    """Decode an answer; None if it is invalid: the user that the child runs as may have changed it."""

    def read() -> FileFacts | None:
        plain = json.loads(line)
        return None if plain is None else from_plain(FileFacts, plain)

    found = guarded("what a user's files tell", read)
    return None if isinstance(found, Unread) else found
