"""The process that every supervisor is forked from: with the modules loaded, one costs only the memory that it changes.

It reads launch ids from its socket, forks a supervisor for each, and answers with a descriptor of the new process.
It ends when the server closes the socket or dies; the supervisors stay.
"""

import gc
import os
import signal
import socket
import sys
from contextlib import suppress

from corral.as_login import leave_login

from . import cgroup
from .launch_records import LaunchRecords
from .supervisor import name_process, run_launch, supervise
from .supervisor_orders import NEWS, Command, Orders

NAME = b"corral-zygote"
"""What every zygote calls itself."""

# The interpreter adapts a function to its arguments on the eighth call.
_REHEARSALS = 10
_BYTES_HEADER = 40
_SMALL_BLOCKS = range(48, 513, 16)
_HANDLED = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ),
    NEWS,
)
_REQUEST_BYTES = 4096


def main(socket_fd: int, launches: str) -> None:
    """Serve launch requests from the socket until it closes."""
    server = socket.socket(fileno=socket_fd)
    os.set_inheritable(socket_fd, False)
    name_process(NAME)
    cgroup.own_directory()
    # Where it fails a job that needs it says so.
    with suppress(OSError):
        leave_login()
    _prepare_signals(reaper_pid=0)
    _rehearse(launches)
    _prepare_signals(reaper_pid=os.getpid())
    gc.collect()
    gc.disable()
    filling = _fill_gaps()
    gc.freeze()
    while request := server.recv(_REQUEST_BYTES):
        _fork_supervisor(server, launches, request.decode())
    del filling


def _rehearse(launches: str) -> None:
    """Run a trivial job as a supervisor would, until the interpreter has adapted its code and filled its caches.

    What happens here first would happen in every supervisor, in memory of its own. It leaves the zygote a subreaper,
    which then also reaps what a supervisor that was killed leaves behind.
    """
    directory = f"{launches}/.rehearsal-{os.getpid()}"
    log, scratch, group, nobody = (f"{directory}/{name}" for name in ("log", "scratch", "group", "nobody"))
    orders = Orders("0", log, scratch, -1, -1, None, 0.0, 1, [], group, [], nobody)
    command = Command(["true"], {"PATH": os.defpath}, "/", 0o022, None, None, None, {})
    for _ in range(_REHEARSALS):
        try:
            os.mkdir(directory, 0o700)
            records = LaunchRecords(directory)
            records.write_spec(orders, command)
            run_launch(records)
            for name in os.listdir(directory):
                (os.rmdir if name in ("scratch", "group") else os.unlink)(f"{directory}/{name}")
            os.rmdir(directory)
        except OSError:
            # Only memory is lost by it, and the first launch will say what is wrong.
            return


def _fill_gaps() -> list[bytes]:
    """Objects that fill the gaps in the interpreter's memory; to be kept.

    What a supervisor allocates then lies together on a few fresh pages, instead of on many that it would share.
    """
    return [bytes(size - _BYTES_HEADER) for size in _SMALL_BLOCKS for _ in range(600 if size < 80 else 100)]


def _prepare_signals(reaper_pid: int) -> None:
    """Give the supervisors their signal handling, so that none has to set up any.

    Whatever is handled here becomes default again when a job's program is executed; what is ignored would stay ignored.
    That is why even a broken pipe and a file size limit get a handler, and a hang-up that nohup ignores as well.
    """

    def on_signal(signum: int, frame: object) -> None:
        # Only the zygote reaps here; a supervisor inherits this, and does it in its loop.
        if signum == signal.SIGCHLD and os.getpid() == reaper_pid:
            _reap()

    for signum in signal.valid_signals():
        if signum in _HANDLED:
            signal.signal(signum, on_signal)
        elif signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _fork_supervisor(server: socket.socket, launches: str, launch_id: str) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        server.send(f"failed {launch_id} {error.strerror}".encode())
        return
    if pid == 0:
        server.close()
        supervise(f"{launches}/{launch_id}")
    try:
        # Unlike a pid it cannot come to mean another process.
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        server.send(f"gone {launch_id}".encode())
        return
    socket.send_fds(server, [f"forked {launch_id}".encode()], [handle])
    os.close(handle)


def command(socket_fd: int, launches: str) -> list[str]:
    """The command line that runs `main` with as little of Python as possible, and without the rest of Corral."""
    above = os.path.abspath(__file__)
    for _ in range(4):
        above = os.path.dirname(above)
    boot = (
        "import sys;"
        f"sys.path.append({above!r});"
        "from corral.runtimes.process import zygote;"
        f"zygote.main({socket_fd}, {launches!r})"
    )
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", boot]
