"""Meeting places of the members of a gang: ports of rank 0's host that were free when they were requested.

Until the launch of rank 0 the agent itself answers at the first of them, so that other hosts can try to reach it.
"""

import secrets
import socket
import threading
from collections.abc import Iterable

from corral.core.model.errors import BackendFailed
from corral.core.ports.node import Rendezvous
from corral.host.node.launches.meeting_door import MeetingDoor

PORTS_ABOVE = 6
"""The ports directly above a meeting port that are its job's, too. SGLang listens there if replicas share attention."""

_TRIES = 100
_SECRET_BYTES = 32


class MeetingPlaces:
    """Reserved ports of each launch. No two launches get the same port."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._places: dict[str, Rendezvous] = {}
        self._doors: dict[str, MeetingDoor] = {}
        self._given_over: set[str] = set()

    def of(self, launch_id: str) -> Rendezvous:
        """Return the meeting place of a launch. It stays the same until it is forgotten. Raises BackendFailed if no
        port is free.
        """
        with self._lock:
            if launch_id not in self._places:
                port = self._free_port(PORTS_ABOVE, besides=())
                srun_port = self._free_port(0, besides=ports_of(port))
                secret = secrets.token_hex(_SECRET_BYTES)
                self._places[launch_id] = Rendezvous(self._address, port, srun_port, secret)
            if launch_id not in self._given_over:
                self._open(launch_id)
            return self._places[launch_id]

    def give_over(self, launch_id: str) -> None:
        """Release the ports for the job, which is about to start. Nobody else listens there from now on."""
        with self._lock:
            if launch_id in self._places:
                self._given_over.add(launch_id)
            self._close(launch_id)

    def forget(self, launch_id: str) -> None:
        """Release the ports of a launch that is over."""
        with self._lock:
            self._places.pop(launch_id, None)
            self._given_over.discard(launch_id)
            self._close(launch_id)

    def close(self) -> None:
        """Release the ports of all launches."""
        with self._lock:
            for launch_id in tuple(self._doors):
                self._close(launch_id)

    def _open(self, launch_id: str) -> None:
        """Answer at a meeting port, anew if it was given up because nobody came."""
        self._close(launch_id)
        try:
            self._doors[launch_id] = MeetingDoor(self._places[launch_id])
        except OSError as error:
            # Another program has taken the port since, and the next call finds another.
            del self._places[launch_id]
            raise BackendFailed(f"no gang can meet at its port: {error.strerror}") from None

    def _close(self, launch_id: str) -> None:
        if (door := self._doors.pop(launch_id, None)) is not None:
            door.close()

    def _free_port(self, above: int, besides: Iterable[int]) -> int:
        """Return a free port, with as many free ones `above` it."""
        taken = set(besides)
        for place in self._places.values():
            taken |= {*ports_of(place.port), place.srun_port}
        for _ in range(_TRIES):
            try:
                port = _bound(0)
            except OSError as error:
                raise BackendFailed(f"no port is free for a gang to meet at: {error.strerror}") from None
            wanted = range(port, port + above + 1)
            if taken.isdisjoint(wanted) and all(map(_is_free, wanted[1:])):
                return port
        raise BackendFailed(f"no port is free for a gang to meet at: {len(taken)} are given to others")


def ports_of(port: int) -> range:
    """Return the ports that belong to the meeting place at this one."""
    return range(port, port + PORTS_ABOVE + 1)


def _is_free(port: int) -> bool:
    try:
        return _bound(port) == port
    except (OSError, OverflowError):
        return False


def _bound(port: int) -> int:
    """Bind a port, any free one for 0, and release it. Raises OSError if it is taken, OverflowError if it is none."""
    with socket.socket() as probe:
        probe.bind(("", port))
        bound: int = probe.getsockname()[1]
        return bound
