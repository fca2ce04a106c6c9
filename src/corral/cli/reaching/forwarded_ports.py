"""Connections to ports of this machine, carried to ports of a job."""

import json
import socket
from collections.abc import Callable, Mapping
from functools import partial

from corral.cli.reaching.job_program import JobProgram
from corral.cli.reaching.local_ports import HERE, is_own, listening_at, refuse_unseen
from corral.cli.screen import say
from corral.client import Client
from corral.core.model.errors import Refused
from corral.forwarding.lanes import MOST_LANES, BrokenStream, Lane, Lanes
from corral.forwarding.sent_program import RELAY, program

_MOST_SAID = 16
_ENDS_WITHIN_S = 2.0
_NOT_OWN = "refused a connection that is not yours: another user of this machine tried, or it was closed at once"
_TOO_MANY = f"refused connections: {MOST_LANES} are open, the limit"


class ForwardedPort:
    """A port of a job, and the port here that stands for it.

    `spelled` is PORT, or LOCAL:PORT for another port here. Raises Refused, and BackendFailed where nothing can be
    forwarded.
    """

    def __init__(self, spelled: str) -> None:
        refuse_unseen()
        local, _, port = spelled.rpartition(":")
        self.port = _number(port, spelled)
        self._local = _number(local, spelled) if local else None

    def listen(self) -> socket.socket:
        """Return a socket that listens here, at a free port if the same is taken: as by a job on this machine.

        Call it once the job listens, or it may take the job's port. Raises Refused.
        """
        return listening_at(self._local or self.port, any_other=self._local is None)


def _number(text: str, spelled: str) -> int:
    if text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 16:
        return int(text)
    raise Refused(f"{spelled!r:.40} is no port; write PORT or LOCAL:PORT, each from 1 to 65535", field="ports")


class _Carried(Lanes):
    """The lanes of all ports of one job."""

    def __init__(self, line: socket.socket, ports: Mapping[int, ForwardedPort], show: Callable[[str], None]) -> None:
        super().__init__(line.fileno(), line.fileno())
        self._ports = ports
        self._show = show
        self._count = 0
        self._said: set[str] = set()
        self._listeners: dict[int, socket.socket] = {}

    def run(self) -> None:
        try:
            super().run()
        finally:
            for listener in self._listeners.values():
                listener.close()

    def _listen(self, port: ForwardedPort) -> None:
        listener = self._listeners[port.port] = port.listen()
        listener.setblocking(False)
        self.watch(listener, partial(self._accept, port.port))
        self._show(f"http://{HERE}:{listener.getsockname()[1]}/")

    def _accept(self, port: int) -> None:
        try:
            connection, _ = self._listeners[port].accept()
        except OSError:
            return
        if not _is_own(connection) or self.is_full:
            self._say_once(_TOO_MANY if self.is_full else _NOT_OWN)
            connection.close()
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._count += 1
        self.open(self.add(self._count, connection, connected=True), port)

    def on_reset(self, lane: Lane | None, reason: str) -> None:
        if lane is not None and reason:
            self._say_once(reason)

    def on_note(self, data: bytes) -> None:
        try:
            said = json.loads(data)
            port, awaited = self._ports.get(said.get("listens")), said.get("awaits")
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise BrokenStream("a note that is none") from None
        if port is not None and port.port not in self._listeners:
            self._listen(port)
        if isinstance(awaited, str) and awaited:
            self._say_once(f"{awaited}; waiting for it")

    def _say_once(self, message: str) -> None:
        # A job may send any number of messages.
        if message not in self._said and len(self._said) < _MOST_SAID:
            self._said.add(message)
            say(message)


def _is_own(connection: socket.socket) -> bool:
    try:
        return is_own(connection)
    except OSError:
        return False


def carry(
    client: Client, job_id: str, rank: int, ports: Mapping[int, ForwardedPort], show: Callable[[str], None]
) -> str:
    """Carry connections until the job, or Corral's program in it, ends. Return why it ended.

    `show` is called with the link of each port once the job listens there.
    """
    words = tuple(map(str, ports))
    inside = JobProgram(client, job_id, rank, "corral forward", program(RELAY), *words)
    try:
        with inside.line:
            _Carried(inside.line, ports, show).run()
    except (BrokenStream, OSError) as error:
        # Docker says in the place of a program that it has none.
        return inside.ending(_ENDS_WITHIN_S) or f"the connection to the job is broken: {error}"
    return inside.ending() or ""
