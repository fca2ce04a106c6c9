"""Where the members of a gang meet: a port of rank 0's host that was free when it was asked for."""

import socket
import threading

from corral.model.errors import BackendFailed
from corral.ports.node import Rendezvous

_TRIES = 100


class MeetingPlaces:
    """Ports by launch, none given to two at a time. Nothing listens there before the job does."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._ports: dict[str, int] = {}

    def of(self, launch_id: str) -> Rendezvous:
        """The same for the same launch until it is forgotten. Raises BackendFailed when no port is free."""
        with self._lock:
            if launch_id not in self._ports:
                self._ports[launch_id] = self._free_port()
            return Rendezvous(self._address, self._ports[launch_id])

    def forget(self, launch_id: str) -> None:
        """The launch is over."""
        with self._lock:
            self._ports.pop(launch_id, None)

    def _free_port(self) -> int:
        taken = set(self._ports.values())
        for _ in range(_TRIES):
            with socket.socket() as probe:
                try:
                    probe.bind(("", 0))
                except OSError as error:
                    raise BackendFailed(f"no port is free for a gang to meet at: {error.strerror}") from None
                port: int = probe.getsockname()[1]
            if port not in taken:
                return port
        raise BackendFailed(f"no port is free for a gang to meet at: {len(taken)} are given to others")
