"""The port of this machine on which its own browsers reach the pages, opened when somebody asks for them.

It stays the same over restarts of the server, so that open pages find it again.
"""

import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from corral.api.server import tcp_socket
from corral.files import read_whole
from corral.model.errors import Refused

_MOST_BYTES = 16

log = logging.getLogger(__name__)


class LoopbackListener:
    """`url` opens a listening socket on 127.0.0.1, unless the server listens on loopback anyway.

    Attributes:
        serve: has the running server answer on a socket too; set by whoever runs it.
    """

    serve: Callable[[socket.socket], Awaitable[None]]

    def __init__(self, port_file: Path, own_url: str | None) -> None:
        """`own_url` is where the server listens on loopback without encryption, None where it does not.

        `port_file` remembers the port for the next server.
        """
        self._port_file = port_file
        self._url = own_url

    def reopened(self) -> tuple[socket.socket, ...]:
        """The socket that the server before had, if it had one and the port is still free."""
        port = None if self._url else self._remembered()
        if port is None:
            return ()
        try:
            return (self._bound(port),)
        except Refused as refused:
            log.warning("pages that are open lost their server: %s; open them again with corral dashboard", refused)
            return ()

    async def url(self) -> str:
        """Where browsers of this machine reach the server, such as http://127.0.0.1:40213."""
        if self._url is None:
            listener = self._bound(0)
            await self.serve(listener)
            self._remember(listener.getsockname()[1])
        assert self._url is not None
        return self._url

    def _bound(self, port: int) -> socket.socket:
        listener = tcp_socket(f"127.0.0.1:{port}")
        self._url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        return listener

    def _remembered(self) -> int | None:
        try:
            port = int(read_whole(self._port_file, _MOST_BYTES))
        except (OSError, ValueError):
            return None
        return port if 0 < port < 1 << 16 else None

    def _remember(self, port: int) -> None:
        fresh = self._port_file.with_name(f"{self._port_file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):  # pages that are open then end with this server, and nothing else
            fresh.write_text(f"{port}\n")
            os.replace(fresh, self._port_file)
