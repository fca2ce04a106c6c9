"""A gang's meeting port before the gang is there: the agent of its first member answers, so that others can try it."""

import hashlib
import socket
import struct
import threading
from collections import deque
from contextlib import suppress

from corral.core.ports.node import Rendezvous

TRY_S = 3.0
"""The longest wait for an answer at a meeting port."""

_OPEN_S = 30.0
_MOST_GUESTS = 256
_LINGER_NOT = struct.pack("ii", 1, 0)


class MeetingDoor:
    """Listens at a meeting port until it is closed, or until nobody has come for a while. Raises OSError."""

    def __init__(self, meeting: Rendezvous) -> None:
        ipv6 = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if ipv6 else socket.AF_INET
        self._word = _word_of(meeting)
        self._listener = socket.create_server(("", meeting.port), family=family, backlog=64, dualstack_ipv6=ipv6)
        self._listener.settimeout(_OPEN_S)
        self._thread = threading.Thread(target=self._welcome, name="meeting", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Release the port. A program may bind it at once."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _welcome(self) -> None:
        guests: deque[socket.socket] = deque()
        with suppress(OSError), self._listener:
            while True:
                guest, _ = self._listener.accept()
                # A connection that ended in the usual way would keep the port busy for a minute.
                guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
                guest.setblocking(False)
                guests.append(guest)
                with suppress(OSError):
                    guest.send(self._word)
                if len(guests) > _MOST_GUESTS:
                    guests.popleft().close()
        for guest in guests:
            guest.close()


def why_not_reached(meeting: Rendezvous) -> str | None:
    """Return why this host does not reach the door of a meeting place, None if it does."""
    expected = _word_of(meeting)
    try:
        with socket.create_connection((meeting.address, meeting.port), TRY_S) as guest:
            guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            said = guest.recv(len(expected), socket.MSG_WAITALL)
    except TimeoutError:
        return f"no answer within {TRY_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return None if said == expected else "another program or another host answers there"


def _word_of(meeting: Rendezvous) -> bytes:
    """Return the word by which the right door is known. It tells nobody the secret."""
    return hashlib.sha256(f"meeting {meeting.secret}".encode()).digest()
