"""Meeting places of the members of a gang: ports of rank 0's host that were free when they were requested."""

import secrets
import socket
import threading

from corral.core.model.errors import BackendFailed
from corral.core.ports.node import Rendezvous

_TRIES = 100
_SECRET_BYTES = 32


class MeetingPlaces:
    """Reserved ports of each launch. No two launches get the same port. Only the job itself listens there."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._places: dict[str, Rendezvous] = {}

    def of(self, launch_id: str) -> Rendezvous:
        """Return the meeting place of a launch. It stays the same until it is forgotten. Raises BackendFailed if no
        port is free.
        """
        with self._lock:
            if launch_id not in self._places:
                port = self._free_port(besides=())
                srun_port = self._free_port(besides=(port,))
                secret = secrets.token_hex(_SECRET_BYTES)
                self._places[launch_id] = Rendezvous(self._address, port, srun_port, secret)
            return self._places[launch_id]

    def forget(self, launch_id: str) -> None:
        """Release the ports of a launch that is over."""
        with self._lock:
            self._places.pop(launch_id, None)

    def _free_port(self, besides: tuple[int, ...]) -> int:
        taken = {*besides, *(port for place in self._places.values() for port in (place.port, place.srun_port))}
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
