"""The program on rank 0 of a gang: it runs the script, and gives each srun in it connections to the other members.

It adds nothing to the script's output and ends as the script does. It passes no signal on, because a signal for a job
goes to all of its processes.
"""

import os
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import NoReturn

from . import channel, handshake
from .tasks import CANNOT_RUN, NOT_FOUND

_HELLO_S = 10.0
_LISTEN_S = 10.0
_LISTEN_PAUSE_S = 0.2
_MOST_STRANGERS = 256
"""The most connections that have not authenticated yet. If there are more, the oldest are dropped."""
_NO_ROOM_PAUSE_S = 0.05
_REQUEST_BYTES = 65536
_HANDLED = frozenset(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
_PEER = struct.Struct("3i")


def main(argv: Sequence[str]) -> NoReturn:
    """Run the script `argv`, and end as the script ends."""
    secret, address = os.environ.pop("CORRAL_SRUN_SECRET"), os.environ.pop("CORRAL_SRUN_ADDRESS")
    for handled in _HANDLED:
        signal.signal(handled, signal.SIG_IGN)
    introductions = Introductions(secret)
    host, _, port = address.rpartition(":")
    try:
        introductions.listen(host, int(port), time.monotonic() + _LISTEN_S)
    except OSError as error:
        why = f"{address}, where srun meets the other members of the gang, cannot be listened at: {error.strerror}"
        print(f"corral: {why}; the script was not run. Submit it again", file=sys.stderr)
        sys.exit(CANNOT_RUN)
    os.environ["CORRAL_SRUN_SOCKET"] = introductions.name
    try:
        pid = os.posix_spawnp(argv[0], list(argv), os.environ, setsigdef=_HANDLED, setsigmask=())
    except OSError as error:
        print(f"corral: cannot run {argv[0]:.400}: {error.strerror}", file=sys.stderr)
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN)
    # This comes after the script got its own limit: each srun and each waiting member takes a descriptor here.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    introductions.serve(os.pidfd_open(pid))
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(os.waitstatus_to_exitcode(status))


class Introductions:
    """Connects waiting members, by rank, with the sruns that request them."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._selector = selectors.DefaultSelector()
        self._strangers: dict[socket.socket, float] = {}
        self._waiting: dict[int, deque[socket.socket]] = {}
        self._wanted: dict[socket.socket, list[int]] = {}
        # The socket is abstract: it has no path that could be too long or left behind.
        self.name = f"corral-srun-{os.urandom(16).hex()}"
        self._sruns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sruns.bind(f"\0{self.name}")
        self._sruns.listen(64)
        self._selector.register(self._sruns, selectors.EVENT_READ, self._on_srun)

    def listen(self, host: str, port: int, until: float) -> None:
        """Accept members. Raises OSError if the port stays in use until `until` (time.monotonic)."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        while True:
            try:
                self._members = socket.create_server((host, port), family=family, backlog=256)
                break
            except OSError:
                # An outgoing connection may have taken the port since it was chosen.
                if time.monotonic() >= until:
                    raise
            time.sleep(_LISTEN_PAUSE_S)
        self._selector.register(self._members, selectors.EVENT_READ, self._on_member)

    def serve(self, script: int) -> None:
        """Connect members and sruns until the process of this pidfd has ended."""
        over = False

        def ended() -> None:
            nonlocal over
            over = True

        self._selector.register(script, selectors.EVENT_READ, ended)
        while not over:
            channel.serve(self._selector, _HELLO_S if self._strangers else None)
            for stranger, since in tuple(self._strangers.items()):
                if time.monotonic() - since > _HELLO_S:
                    self._drop(stranger)

    def _on_member(self) -> None:
        line = _accepted(self._members)
        if line is None:
            return
        if len(self._strangers) >= _MOST_STRANGERS:
            # Idle connections must not keep out members, which authenticate at once.
            self._drop(next(iter(self._strangers)))
        nonce, said = os.urandom(handshake.NONCE_BYTES), bytearray()
        line.setblocking(False)
        self._strangers[line] = time.monotonic()
        self._selector.register(line, selectors.EVENT_READ, lambda: self._hear(line, nonce, said))
        try:
            line.send(nonce)
        except OSError:
            self._drop(line)

    def _hear(self, line: socket.socket, nonce: bytes, said: bytearray) -> None:
        """Read a new connection's authentication."""
        try:
            piece = line.recv(handshake.HELLO_BYTES - len(said))
            said += piece
            if not piece:
                raise channel.Broken("the connection ended")
            if len(said) < handshake.HELLO_BYTES:
                return
            rank, answer = handshake.welcome(self._secret, nonce, bytes(said))
            line.send(answer)
        except (OSError, channel.Broken):
            self._drop(line)
            return
        del self._strangers[line]
        self._selector.modify(line, selectors.EVENT_READ, lambda: self._leave(rank, line))
        self._waiting.setdefault(rank, deque()).append(line)
        self._introduce()

    def _leave(self, rank: int, line: socket.socket) -> None:
        """Drop a waiting member: it sends nothing while it waits, so its connection has ended."""
        self._waiting[rank].remove(line)
        self._drop(line)

    def _drop(self, line: socket.socket) -> None:
        self._strangers.pop(line, None)
        self._selector.unregister(line)
        line.close()

    def _on_srun(self) -> None:
        line = _accepted(self._sruns)
        if line is None:
            return
        _, uid, _ = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        if uid != os.geteuid():
            line.close()
            return
        self._selector.register(line, selectors.EVENT_READ, lambda: self._ask(line))

    def _ask(self, line: socket.socket) -> None:
        """Read a request of an srun for members. At the end of its connection the srun requests none any more."""
        try:
            said = line.recv(_REQUEST_BYTES)
            wanted = [int(rank) for rank in said.split(b",")] if said else []
        except (OSError, ValueError):
            wanted = []
        if not wanted:
            self._wanted.pop(line, None)
            self._drop(line)
            return
        self._wanted[line] = wanted
        self._introduce()

    def _introduce(self) -> None:
        for srun, wanted in tuple(self._wanted.items()):
            for rank in tuple(wanted):
                if not self._waiting.get(rank):
                    continue
                member = self._waiting[rank].popleft()
                self._selector.unregister(member)
                wanted.remove(rank)
                try:
                    member.setblocking(True)
                    socket.send_fds(srun, [channel.RANK.pack(rank)], [member.fileno()])
                except OSError:
                    wanted.clear()
                member.close()


def _accepted(listener: socket.socket) -> socket.socket | None:
    """Return the next connection. None if it broke off, or if no descriptor is left: it then waits to be accepted
    later.
    """
    try:
        return listener.accept()[0]
    except OSError:
        time.sleep(_NO_ROOM_PAUSE_S)
        return None
