"""One session of `ssh` as a connection to an agent: its standard input and output are one end of a pair of sockets."""

import socket
import subprocess
import time
from collections.abc import Sequence

from corral.core.model.errors import NodeUnreachable
from corral.host.node.connect import MARK

_BEFORE_MARK_BYTES = 64 * 1024
"""The most bytes that a login shell may write before the agent's."""

_END_S = 2.0


class HostSession(socket.socket):
    """The connection to the agent through a session. Closing it ends the session."""

    process: subprocess.Popen[bytes]

    def close(self) -> None:
        super().close()
        if self.process.stderr is not None:
            self.process.stderr.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


def open_session(words: Sequence[str], stderr: int = subprocess.DEVNULL) -> HostSession:
    """Start a session with this command line. Raises NodeUnreachable if there is no `ssh` here."""
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise NodeUnreachable(f"there is no room here for a connection: {error.strerror}") from None
    with theirs:
        end = theirs.fileno()
        try:
            process = subprocess.Popen(words, stdin=end, stdout=end, stderr=stderr, start_new_session=True)
        except OSError as error:
            ours.close()
            raise NodeUnreachable(f"ssh cannot be started: {error.strerror}; install OpenSSH's client here") from None
    session = HostSession(fileno=ours.detach())
    session.process = process
    return session


def await_agent(session: HostSession, until: float) -> str | None:
    """Skip what a login shell wrote, until the agent's bytes are next. None if the session ended before.

    Return the address that SSH has reached; "" if it is unknown.

    Raises TimeoutError at `until` (time.monotonic), and NodeUnreachable after too many other bytes.
    """
    read = b""
    address: bytes | None = None
    for _ in range(_BEFORE_MARK_BYTES):
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        session.settimeout(left_s)
        byte = session.recv(1)
        if not byte:
            return None
        if address is not None and byte == b"\n":
            return address.decode("ascii", "replace")
        if address is not None:
            address += byte
            continue
        read = (read + byte)[-len(MARK) :]
        if read == MARK:
            address = b""
    raise NodeUnreachable("a login shell there writes without end, in place of the agent")
