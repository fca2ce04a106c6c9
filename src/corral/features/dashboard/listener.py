"""The port of this machine on which local browsers reach the pages. It opens when somebody asks for the pages.

A page may go on talking to the port from which it was loaded. If another user listened there in between, that user's
page would act with the rights of its viewer once the server has the port again. So the port stays the same over
restarts, for open pages, only if no other user can take it in between. This holds for ports that only root may listen
on (ip(7)). Any other port is used by one server only.
"""

import contextlib
import logging
import os
import random
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from corral.api.server import tcp_socket
from corral.core.model.errors import Refused
from corral.files import read_whole

_MOST_BYTES = 16
_PORTS_OF_ROOT = range(700, 980)
"""Browsers refuse some of the ports that only root may listen on. They open all ports in this range."""

_FIRST_OPEN_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")

log = logging.getLogger(__name__)


class LoopbackListener:
    """Opens a listening socket on 127.0.0.1 in `url`, unless the server already listens on loopback."""

    def __init__(self, port_file: Path, own_url: str | None, serve: Callable[[socket.socket], Awaitable[None]]) -> None:
        """`own_url` is where the server listens on loopback without encryption; None if it does not.

        `port_file` keeps the port for the next server. `serve` makes the running server answer on one more socket.
        """
        self._port_file = port_file
        self._url = own_url
        self._serve = serve

    def reopened(self) -> tuple[socket.socket, ...]:
        """The socket on the previous server's port, if the port is free and no other user could have had it since."""
        port = None if self._url else self._remembered()
        if port is None or port >= _first_open_port():
            return ()
        try:
            return (self._bound(port),)
        except Refused as refused:
            log.warning("pages that are open lost their server: %s; open them again with corral dashboard", refused)
            return ()

    async def url(self) -> str:
        """The URL at which browsers of this machine reach the server, such as http://127.0.0.1:40213."""
        if self._url is None:
            listener = self._bound_anywhere()
            await self._serve(listener)
            self._remember(listener.getsockname()[1])
        assert self._url is not None
        return self._url

    def _bound_anywhere(self) -> socket.socket:
        if os.geteuid() == 0 and _first_open_port() >= _PORTS_OF_ROOT.stop:
            for port in random.sample(_PORTS_OF_ROOT, len(_PORTS_OF_ROOT)):
                with contextlib.suppress(Refused):
                    return self._bound(port)
        return self._bound(0)

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
        with contextlib.suppress(OSError):  # without the file, only the pages that are open end with this server
            fresh.write_text(f"{port}\n")
            os.replace(fresh, self._port_file)


def _first_open_port() -> int:
    """The lowest port on which every user may listen."""
    try:
        return int(_FIRST_OPEN_PORT.read_text())
    except (OSError, ValueError):
        return 0
