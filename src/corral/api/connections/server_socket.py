"""The Unix socket of a server. It is made again if somebody removes its file."""

import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

from corral.api.server import bound_socket, unix_socket
from corral.core.model.errors import Refused

log = logging.getLogger(__name__)


class ServerSocket:
    """The socket at `path`, made by this server alone. Raises as `unix_socket` does.

    Attributes:
        serve: makes the running server answer on another socket; safe from any thread. The server's owner sets it.
    """

    serve: Callable[[socket.socket], None]

    def __init__(self, path: Path, *, for_everyone: bool) -> None:
        self._path = path
        self._for_everyone = for_everyone
        self.socket = unix_socket(path, for_everyone=for_everyone)
        self._own = self._there()
        self._told = False

    def look(self) -> None:
        """Make the socket again if its file is gone. Leave another file at the path alone, and log it once.

        Raises Refused if the socket cannot be made.
        """
        there = self._there()
        if there is None:
            # If another process makes a file there at this moment, that file stays: binding fails for an existing path.
            listener = bound_socket(self._path, for_everyone=self._for_everyone)
            self._own, self._told = self._there(), False
            self.serve(listener)
            log.warning("%s had been removed; the server answers there again", self._path)
        elif there != self._own and not self._told:
            self._told = True
            log.error("%s is not this server's socket any more, so commands may not reach it; remove it", self._path)

    def remove(self) -> None:
        """Remove the socket's file, unless another process has replaced it."""
        if self._own is not None and self._there() == self._own:
            self._path.unlink(missing_ok=True)

    def _there(self) -> tuple[int, int] | None:
        """The device and inode of the file at the path; None if there is none. Raises Refused if that is unknown."""
        try:
            status = os.lstat(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"cannot look after {self._path}: {error.strerror}") from None
        return status.st_dev, status.st_ino
