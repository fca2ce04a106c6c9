"""Looks at files of users, from the server's side: asked of a process of its own, and given up at a deadline.

Whatever a user does to a file that is looked at, or to the process that looks, costs the server no more than the time
until the deadline.
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

from corral.model.errors import Refused
from corral.node.looker import MOST_ORDER_BYTES, TAKEN, command
from corral.ports import Credentials, Look
from corral.preflight.looking import FileFacts, look
from corral.wire import from_plain

DEADLINE_S = 3.0
TAKEN_WITHIN_S = 1.0
"""A process that has not taken an order by then is stopped or dead, and replaced."""
_LOOKS_IN_AN_ORDER = 100
_MOST_ANSWER_BYTES = 4 * 1024 * 1024
_READ_BYTES = 64 * 1024

log = logging.getLogger(__name__)


class HostLooks:
    """Implements `ports.Looks` on this host. Safe from any thread.

    Only root can look as somebody else; any other server looks as its own user, as whom it runs every job.
    """

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._becomes = os.geteuid() == 0
        self._lock = threading.Lock()
        self._looker: _Looker | None = None

    @property
    def pid(self) -> int | None:
        """The process that looks now."""
        return None if self._looker is None else self._looker.pid

    def start(self) -> None:
        """Have the process ready for the first look."""
        with contextlib.suppress(OSError):
            self._current()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._looker is not None:
                self._looker.end()
                self._looker = None

    def at(self, looks: Sequence[Look], who: Credentials | None) -> dict[Look, FileFacts]:
        """What was found with the rights of `who`; what took too long, or could not be asked, is left out."""
        until = time.monotonic() + self._deadline_s
        found: dict[Look, FileFacts] = {}
        for order in _orders(dict.fromkeys(looks)):
            answers = self._asked(order, who if self._becomes else None, until)
            found.update((asked, facts) for asked, facts in zip(order, answers, strict=False) if facts is not None)
            if time.monotonic() >= until:
                break
        return found

    def _asked(self, looks: list[Look], who: Credentials | None, until: float) -> list[FileFacts | None]:
        for _ in range(2):
            try:
                looker = self._current()
                text = looker.ask(looks, who, until)
            except OSError as error:
                log.warning("nothing looks at files of users: %s", error.strerror)
                return []
            if text is not None:
                return [_facts(line) for line in text.split(b"\n")[:-1]]
            log.warning("process %s, which looks at files of users, does not answer and is replaced", looker.pid)
            self._give_up(looker)
        return []

    def _current(self) -> "_Looker":
        with self._lock:
            if self._looker is None:
                self._looker = _Looker()
            return self._looker

    def _give_up(self, looker: "_Looker") -> None:
        with self._lock:
            if self._looker is looker:
                self._looker = None
                looker.end()


class OwnLooks:
    """Looks in this very process, for who brings all the files that are looked at."""

    def at(self, looks: Sequence[Look], who: Credentials | None) -> dict[Look, FileFacts]:
        """As `ports.Looks`, whoever `who` is."""
        return {asked: look(asked) for asked in looks}


class _Looker:
    """One process that looks, and the socket to it."""

    def __init__(self) -> None:
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

    def ask(self, looks: list[Look], who: Credentials | None, until: float) -> bytes | None:
        """What was answered until then, a line for each look; None when nobody took the order. Raises OSError."""
        now = time.monotonic()
        order = json.dumps({"looks": looks, "who": who, "within_s": until - now}).encode()
        if len(order) > MOST_ORDER_BYTES:
            return b""
        taken_until = min(until, now + TAKEN_WITHIN_S)
        mine, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            try:
                sent = self._send(order, theirs, taken_until)
            finally:
                os.close(theirs)
            if not sent or _read(mine, 1, taken_until) != TAKEN:
                # Where the time was too short for an order to be taken, nothing is wrong with whoever should take it.
                return b"" if taken_until == until <= time.monotonic() else None
            return _read(mine, _MOST_ANSWER_BYTES, until)
        finally:
            os.close(mine)

    def _send(self, order: bytes, pipe: int, until: float) -> bool:
        """Whether the order is on its way."""
        room = select.poll()
        try:
            room.register(self._socket, select.POLLOUT)
            while room.poll(max(0.0, until - time.monotonic()) * 1000):
                with contextlib.suppress(BlockingIOError):
                    socket.send_fds(self._socket, [order], [pipe], socket.MSG_NOSIGNAL)
                    return True
        except (OSError, ValueError):
            # Somebody else found it dead, and has closed the socket.
            return False
        return False

    def end(self) -> None:
        """End the process and whoever looks for it."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


def _read(pipe: int, most_bytes: int, until: float) -> bytes:
    """What comes until the pipe is closed, so much has come, or the time is up."""
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


def _orders(looks: Sequence[Look] | dict[Look, None]) -> Iterator[list[Look]]:
    """The looks in portions that fit into a message; one that does not fit alone is not known."""
    order: list[Look] = []
    size = 0
    for asked in looks:
        length = len(json.dumps(asked))
        if length > MOST_ORDER_BYTES // 2:
            continue
        if order and (len(order) >= _LOOKS_IN_AN_ORDER or size + length > MOST_ORDER_BYTES // 2):
            yield order
            order, size = [], 0
        order.append(asked)
        size += length
    if order:
        yield order


def _facts(line: bytes) -> FileFacts | None:
    """What an answer says; None where it is no answer: whose rights the child has may have had a hand in it."""
    try:
        plain = json.loads(line)
        return None if plain is None else from_plain(FileFacts, plain)
    except (ValueError, RecursionError, Refused):
        return None
