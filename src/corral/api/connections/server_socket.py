"""The Unix socket of a server, which is made again where somebody removed its file."""

import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

from corral.api.server import bound_socket, unix_socket
from corral.core.model.errors import Refused

log = logging.getLogger(__name__)


class ServerSocket:
    """The socket at `path`, which this server alone has made. Raises as `unix_socket` does.

    Attributes:
        serve: has the running server answer on another socket, from any thread; set by whoever runs it.
    """

    serve: Callable[[socket.socket], None]

    def __init__(self, path: Path, *, for_everyone: bool) -> None:
        self._path = path
        self._for_everyone = for_everyone
        self.socket = unix_socket(path, for_everyone=for_everyone)
        self._own = self._there()
        self._told = False

    def look(self) -> None:
        """Make it again if its file is gone. What somebody else has put there is left alone, and told of once.

        Raises Refused where it cannot be made.
        """
        there = self._there()
        if there is None:
            # Whoever makes something there at this moment comes first: this takes no path that there is.
            listener = bound_socket(self._path, for_everyone=self._for_everyone)
            self._own, self._told = self._there(), False
            self.serve(listener)
            log.warning("%s had been removed; the server answers there again", self._path)
        elif there != self._own and not self._told:
            self._told = True
            log.error("%s is not this server's socket any more, so commands may not reach it; remove it", self._path)

    def remove(self) -> None:
        """Remove its file, unless that is somebody else's."""
        if self._own is not None and self._there() == self._own:
            self._path.unlink(missing_ok=True)

    def _there(self) -> tuple[int, int] | None:
        """What is at the path, by device and inode; None for nothing. Raises Refused where that cannot be seen."""
        try:
            status = os.lstat(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"cannot look after {self._path}: {error.strerror}") from None
        return status.st_dev, status.st_ino
