"""The process that inspects files of users: for each order it forks a child, which becomes the user and may die.

An order is a JSON object in one message, with the pipe for its answer attached. The first byte into the pipe says that
the order was taken; then the child writes the answers, one a line. The process ends when the server does.
"""

import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from corral.as_login import become, leave_login
from corral.core.ports.host import Credentials, FileQuery
from corral.core.preflight.file_facts import read_facts
from corral.wire import to_plain

MOST_ORDER_BYTES = 128 * 1024
TAKEN = b"+"
_MOST_CHILDREN = 64
_MOST_OF_A_USER = 16
"""The most children of a user that may wait: a child that hangs in the kernel cannot be killed."""
_MEMORY_BYTES = 1024**3
_FILES = 32
_ANSWER_FD = 3
_MOST_DESCRIPTORS = 1024
"""An upper bound of the descriptors that this process has open."""
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def main(server_fd: int) -> None:
    """Take orders until the server closes its end of the socket."""
    server = socket.socket(fileno=server_fd)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Each child tries this again. If it fails there too, the child inspects nothing.
    with contextlib.suppress(OSError):
        leave_login()
    # Modules that are loaded on first use are loaded here, for all children.
    read_facts(FileQuery(program=sys.executable, model="/", variables=(("PATH", os.defpath),)))
    gc.collect()
    gc.freeze()
    children = _Children()
    poll = select.poll()
    poll.register(server, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll(children.pause_ms())]
        children.tend(poll, ready)
        if server.fileno() in ready and not _take(server, children, poll):
            return


def _take(server: socket.socket, children: "_Children", poll: select.poll) -> bool:
    """Take an order. Return False if the server has closed the socket."""
    message, pipes, _, _ = socket.recv_fds(server, MOST_ORDER_BYTES, 1)
    if not message:
        return False
    for pipe in pipes:
        # The server may have given this order up.
        with contextlib.suppress(BrokenPipeError):
            os.write(pipe, TAKEN)
            children.fork(json.loads(message), pipe, poll)
        os.close(pipe)
    return True


class _Children:
    """The children at work: each is killed at its deadline, and reaped when it has ended."""

    def __init__(self) -> None:
        self._children: dict[int, tuple[int, float, int | None]] = {}

    def pause_ms(self) -> int | None:
        """Return the milliseconds until the next deadline of a child that was not killed yet."""
        deadlines = [deadline for _, deadline, _ in self._children.values() if deadline < float("inf")]
        return max(0, int((min(deadlines) - time.monotonic()) * 1000) + 1) if deadlines else None

    def fork(self, order: dict[str, Any], pipe: int, poll: select.poll) -> None:
        """Fork a child that answers an order. Does nothing if too many children hang already."""
        who = order["who"]
        uid = None if who is None else who[0]
        of_user = sum(1 for _, _, other in self._children.values() if other == uid)
        if len(self._children) >= _MOST_CHILDREN or of_user >= _MOST_OF_A_USER:
            return
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            return
        if pid == 0:
            _answer(order, pipe, parent)
        handle = os.pidfd_open(pid)
        self._children[handle] = pid, time.monotonic() + order["within_s"], uid
        poll.register(handle, select.POLLIN)

    def tend(self, poll: select.poll, ready: list[int]) -> None:
        """Reap ended children, and kill late ones."""
        for handle in ready:
            if handle in self._children:
                pid, _, _ = self._children.pop(handle)
                os.waitpid(pid, 0)
                poll.unregister(handle)
                os.close(handle)
        now = time.monotonic()
        for handle, (pid, deadline, uid) in self._children.items():
            if deadline <= now:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                self._children[handle] = pid, float("inf"), uid


def _answer(order: dict[str, Any], pipe: int, parent: int) -> NoReturn:
    """Do the work of the child: with only the user's rights, no open file but the pipe, and low limits."""
    try:
        os.dup2(pipe, _ANSWER_FD)
        os.closerange(_ANSWER_FD + 1, _MOST_DESCRIPTORS)
        os.dup2(0, 2)
        _limit(order["within_s"])
        if order["who"] is not None:
            who = Credentials(*order["who"])
            become(who.uid, who.gid, who.groups)
        # The change of user clears this setting, so it is made afterwards.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        for query in order["queries"]:
            line = json.dumps(_facts(FileQuery(*query)))
            _write(f"{line}\n".encode())
    finally:
        os._exit(0)


def _limit(within_s: float) -> None:
    cpu_s = int(within_s) + 1
    for kind, most in (
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _FILES),
    ):
        _, hard = resource.getrlimit(kind)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))


def _facts(query: FileQuery) -> Any:
    """Return the plain form of the findings; None if reading fails."""
    try:
        return to_plain(read_facts(query))
    except Exception:
        # A user's files may cause any error, even a lack of memory: the findings are then unknown.
        return None


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_ANSWER_FD, data) :]


def command(server_fd: int) -> list[str]:
    """Return the command line that runs `main`."""
    here = os.path.abspath(__file__)
    for _ in range(5):
        here = os.path.dirname(here)
    module = "corral.host.node.files.inspection_worker"
    boot = f"import sys; sys.path.append({here!r}); from {module} import main; main({server_fd})"
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", boot]
