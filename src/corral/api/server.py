"""Serve the application on prepared sockets with one event loop. At a stop, running requests may finish."""

import asyncio
import contextlib
import logging
import os
import re
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from corral.api.answers.waiting import EndSignal
from corral.api.connections.connection_limits import ConnectionLimits
from corral.api.connections.peer import PeerProtocol
from corral.api.connections.tls import TlsAcceptor
from corral.api.connections.unix_acceptor import UnixAcceptor
from corral.core.model.devices.address import is_loopback
from corral.core.model.errors import Conflict, Refused

KEEP_ALIVE_S = 30
GRACE_S = 5
"""The time that requests in progress have to finish when the server stops."""

TOKENS_LOOKED_AT_S = 1.0
"""The time between checks whether the tokens of open connections have ended."""

_BACKLOG = 1024
_UNANSWERED_MS = 60_000
_SPARE_DESCRIPTORS = 128
_MOST_RECEIVED_BYTES = 1024
"""The longest accepted message of a WebSocket. The server uses no message that clients send."""
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.%\w]+\]|[^\s:\[\]]+):(?P<port>\d{1,5})")

log = logging.getLogger(__name__)


class ApiServer:
    """Serves an application on sockets until `stop`.

    `run` calls `on_ready` as soon as requests are answered. Connections of `tls` are encrypted.
    """

    def __init__(
        self,
        app: Starlette,
        sockets: Sequence[socket.socket],
        ends: EndSignal,
        *,
        on_ready: Callable[[], None],
        tls: TlsAcceptor | None = None,
    ) -> None:
        self._sockets = list(sockets)
        self._ends = ends
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=partial(PeerProtocol, ConnectionLimits(_most_connections())),  # type: ignore[arg-type]
            ws=_web_socket,  # type: ignore[arg-type]
            ws_max_size=_MOST_RECEIVED_BYTES,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = _Server(config, on_ready, tls, app.state.corral.authenticator.is_valid)

    def run(self) -> None:
        """Serve until `stop`. Return when the requests in progress are done."""
        self._server.run(self._sockets)

    async def serve_also(self, listener: socket.socket) -> None:
        """Answer on one more socket while serving. Called on the event loop."""
        await self._server.serve_also(listener)

    def serve_also_soon(self, listener: socket.socket) -> None:
        """Answer on one more socket, as `serve_also` does. Safe from any thread."""
        self._server.serve_also_soon(listener)

    def stop(self) -> None:
        """Accept no more requests, and let `run` return. Safe from any thread or signal handler, and before `run`."""
        self._ends.close()
        self._server.stop()


def _web_socket(**connection: Any) -> asyncio.Protocol:
    """The protocol to which uvicorn hands over a connection that becomes a WebSocket."""
    # Loaded with the first WebSocket, because its libraries take a twentieth of a server's start.
    from corral.api.connections.socket_protocol import EventSocketProtocol

    return EventSocketProtocol(**connection)


class _Server(uvicorn.Server):
    """uvicorn without its periodic tick and its signal handlers. The whole process needs the signals."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None],
        tls: TlsAcceptor | None,
        is_valid: Callable[[str], bool],
    ) -> None:
        super().__init__(config)
        self._is_valid = is_valid
        self._ended: frozenset[tuple[Any, str]] = frozenset()
        self._tls = tls
        self._on_ready = on_ready
        self._wakers = contextlib.ExitStack()
        self._acceptors: list[UnixAcceptor] = []
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        self.should_exit = True
        if self._loop is not None and self._stopping is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._wake_at_signals(self._loop)
        listeners = sockets or []
        await super().startup([one for one in listeners if one.family != socket.AF_UNIX])
        for one in listeners:
            if one.family == socket.AF_UNIX:
                self._accept_on(one)
        if self._tls is not None:
            self._tls.start(self._make_protocol)
        self._on_ready()

    def _wake_at_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the loop for each signal, because Python runs the handler only when it next runs code.

        Without this, a signal that arrives just before the loop waits, or in another thread, is handled with the next
        request.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        heard, told = socket.socketpair()
        for end in (heard, told):
            end.setblocking(False)
            self._wakers.callback(end.close)
        loop.add_reader(heard, heard.recv, 4096)
        self._wakers.callback(loop.remove_reader, heard)
        signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
        self._wakers.callback(signal.set_wakeup_fd, -1)

    async def serve_also(self, listener: socket.socket) -> None:
        if listener.family == socket.AF_UNIX:
            self._accept_on(listener)
            return
        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_server(self._make_protocol, sock=listener, backlog=_BACKLOG))

    def _accept_on(self, listener: socket.socket) -> None:
        self._acceptors.append(UnixAcceptor(listener, self._make_protocol, _BACKLOG))

    def serve_also_soon(self, listener: socket.socket) -> None:
        if self._loop is not None and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self.serve_also(listener), self._loop)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is not None:
            self._tls.close()
        for acceptor in self._acceptors:
            acceptor.close()
        await super().shutdown(sockets)
        self._wakers.close()

    def _make_protocol(self) -> asyncio.Protocol:
        make = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)  # type: ignore[call-arg]

    async def main_loop(self) -> None:
        # uvicorn's tick would update the date header and check for the end ten times a second. Neither is needed.
        assert self._stopping is not None
        while not self.should_exit:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), TOKENS_LOOKED_AT_S)
            self._cut_off_ended()

    def _cut_off_ended(self) -> None:
        """Break off connections whose request in progress uses a token that has ended, whatever the request is for.

        A connection is broken off at the second check in a row, so that a response can first send the reason.
        """
        ended = frozenset(
            (connection, digest)
            for connection in self.server_state.connections
            for digest in connection.app_state.get("tokens", ())
            if not self._is_valid(digest)
        )
        for connection, _ in ended & self._ended:
            # Unsent data is dropped: otherwise a slow reader would receive data for longer.
            connection.transport.abort()
        self._ended = ended - self._ended


def unix_socket(path: Path, *, for_everyone: bool) -> socket.socket:
    """A listening Unix socket at `path`. It replaces the socket of a dead server.

    The kernel names the user of each connection. So a server for several users opens the socket `for_everyone` (mode
    0666); otherwise only its own user can connect (0600). Raises Conflict if a server listens there, Refused if the
    path is not a socket.
    """
    if path.is_socket():
        if _answers(path):
            raise Conflict(
                f"a server already listens on {path}; stop it with corral down, or set CORRAL_HOME to another directory"
            )
        path.unlink()
    elif path.is_file() and path.stat().st_size == 0:
        path.unlink()
    elif path.exists():
        raise Refused(f"{path} is not a socket, but the server needs this path for its socket; move it away")
    return bound_socket(path, for_everyone=for_everyone)


def bound_socket(path: Path, *, for_everyone: bool) -> socket.socket:
    """A listening Unix socket at `path`, where no file may exist. Raises Refused."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The file inherits the mode of the socket, so there is no moment in which other users can connect.
        os.fchmod(listener.fileno(), 0o600)
        listener.bind(os.fspath(path))
        if for_everyone:
            path.chmod(0o666)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise Refused(f"cannot listen on {path}: {error.strerror or error}") from None
    return listener


def tcp_socket(address: str, *, encrypted: bool = False, insecure: bool = False) -> socket.socket:
    """A listening TCP socket at HOST:PORT. Port 0 takes a free port (see `getsockname`).

    Raises Refused for an invalid address, and for an address that cannot be listened on. Also for an address that other
    machines can reach, if the socket is neither `encrypted` nor explicitly `insecure`.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise Refused(
            f"--listen: {address!r} is not an address; write HOST:PORT, such as 127.0.0.1:7070", field="listen"
        )
    host = match["host"].strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, int(match["port"])), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise Refused(f"cannot listen on {address}: {error.strerror or error}", field="listen") from None
    # Accepted connections inherit this option. Without it, a body after its head waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Without this, the server would not notice for hours that a client machine was switched off during an answer.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)
    # The check uses the bound address, because a name may mean any address.
    if not encrypted and not is_loopback(listener.getsockname()[0]):
        if not insecure:
            listener.close()
            raise Refused(
                f"--listen: other machines can reach {address}, and without encryption anyone on the network could "
                "read and use tokens; give --tls-cert and --tls-key, listen on 127.0.0.1, or add --insecure if you "
                "trust the network",
                field="listen",
            )
        log.warning("listening on %s without encryption: anyone on the network can read tokens", address)
    return listener


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except OSError as error:
            raise Refused(f"cannot tell whether a server listens on {path}: {error.strerror or error}") from None
    return True


def _most_connections() -> int:
    """The most connections at once. They leave enough file descriptors for jobs and the ledger."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 65536 if soft == resource.RLIM_INFINITY else max(64, soft - _SPARE_DESCRIPTORS)
