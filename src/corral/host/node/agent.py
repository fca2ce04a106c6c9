"""The agent of one host in a process of its own: serves a LocalNode on a Unix socket. Run as `corral agent`.

Its settings are in a `config.yaml` of the server's form: the home's own, or the given file. It ends on SIGTERM; its
launches run on, and the next agent of the same home takes them over.
"""

import argparse
import ctypes
import gc
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import corral
from corral.clock import SystemClock
from corral.config import OnIsolation, Settings, load_settings
from corral.core.model.errors import BackendFailed, CorralError, Forbidden, NodeUnreachable, Refused
from corral.core.model.home import SOCKET_PATH_BYTES, Home
from corral.core.ports.node import NodeAgent
from corral.event_log import log_to_stderr
from corral.host.node.agent_calls import METHODS
from corral.host.node.agent_claim import MAX_CLAIM_BYTES, Claims, read_claim
from corral.host.node.host_accounts import HostAccounts
from corral.host.node.installed.agent_places import AgentPlaces
from corral.host.node.launches.cut_off_from_server import IsolationWatch
from corral.host.node.local import LocalNode
from corral.host.node.mock.mock_faults import MockFaults
from corral.host.node.own_installation import OwnInstallation
from corral.host.node.protocol import GREETING, VERSION, BadFrame, Closed, plain_error, receive, send
from corral.pid_file import only_process_of
from corral.unix_peer import peer_of
from corral.wire import to_plain

log = logging.getLogger("corral.agent")

BROKEN = 70
"""Exit status after a broken invariant: EX_SOFTWARE of sysexits.h."""

MOST_CONNECTIONS = 64
"""The most connections. Each has a thread; a server needs a few, and one for each log read or submission inspected."""

REPLACED = -1
"""The result of `run` if another version is to take this agent's place."""

_GREETING_S = 1.0
_CLAIM_S = 10.0
"""The time limit for the claim of a server."""
_LOCK_S = 3.0
"""The agent of a killed server unlocks its home within this time. Otherwise it hangs and is killed."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of an agent.

    Attributes:
        home: the directory for its records, logs and scratch; one agent a home.
        socket: the path of its socket.
        mock: a file with mock devices, in place of this host's.
        node: the node's name; None is the host's name.
        config: the file of settings; None is the home's own.
        server_home: the home by which jobs find their server; None is the agent's home.
        address: the address at which members of a gang reach this host.
        parent_pid: the agent ends when this process, its parent, does.
        claimed: it serves the one server that joined this host, and runs jobs as their users' accounts on this host.
    """

    home: str
    socket: str
    mock: str | None = None
    node: str | None = None
    config: str | None = None
    server_home: str | None = None
    address: str = "127.0.0.1"
    parent_pid: int | None = None
    claimed: bool = False


def _nothing() -> None:
    """Do nothing; a default callback."""


class AgentServer:
    """Answers the calls of a node's server, each connection on a thread of its own.

    `may_answer` is called before each call is carried out, and again before its answer is sent. It may block. `called`
    is called after each call. With `claims` a connection begins with a claim (`corral.host.node.agent_claim`).
    """

    def __init__(
        self,
        node: NodeAgent,
        name: str,
        path: Path,
        *,
        claims: Claims | None = None,
        may_answer: Callable[[], None] = _nothing,
        called: Callable[[], None] = _nothing,
    ) -> None:
        self._may_answer = may_answer
        self._called = called
        self._claims = claims
        self._node = node
        self._greeting = {GREETING: VERSION, "node": name, "version": corral.__version__}
        self._path = path
        self._ending, self._end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = _listener(path)

    def serve(self) -> None:
        """Answer calls until `stop`."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._ending, select.POLLIN)
        while self._ending not in {fd for fd, _ in poll.poll()}:
            with suppress(OSError):
                self._welcome(self._listener.accept()[0])
        self._listener.close()
        self._path.unlink(missing_ok=True)
        self._node.close()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def stop_at(self, *signals: signal.Signals) -> None:
        """Make `serve` return at any of these signals. `serve` must run on the main thread."""
        for number in signals:
            signal.signal(number, lambda *_: self.stop())
        # A Python handler runs only when Python code runs next. Without the wakeup descriptor, a signal just before the
        # poll, or to another thread, would take effect only at the next connection.
        signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)

    def stop(self) -> None:
        """Make `serve` return. Safe from a signal handler."""
        with suppress(BlockingIOError):
            os.write(self._end, b"x")

    def _welcome(self, connection: socket.socket) -> None:
        refusal = self._refusal(connection)
        if refusal is not None:
            with suppress(OSError):
                send(connection, plain_error(refusal), time.monotonic() + _GREETING_S)
            connection.close()
            return
        with self._lock:
            self._connections.add(connection)
        threading.Thread(target=self._attend, args=(connection,), name="connection", daemon=True).start()

    def _refusal(self, connection: socket.socket) -> CorralError | None:
        uid = peer_of(connection).uid
        if uid not in (0, os.geteuid()):
            return Forbidden(f"this agent answers its own user and root, and you are user {uid}")
        with self._lock:
            if len(self._connections) >= MOST_CONNECTIONS:
                return NodeUnreachable(f"this agent has {MOST_CONNECTIONS} connections, the limit")
        return None

    def _greet(self, connection: socket.socket) -> bool:
        """Answer the claim of the server, if there must be one, and greet. Return whether calls may follow."""
        releases = False
        if self._claims is not None:
            try:
                claim = read_claim(receive(connection, time.monotonic() + _CLAIM_S, MAX_CLAIM_BYTES))
                self._claims.admit(claim)
                releases = claim.releases
            except CorralError as refusal:
                send(connection, plain_error(refusal), time.monotonic() + _GREETING_S)
                return False
        send(connection, self._greeting, time.monotonic() + _GREETING_S)
        return not releases

    def _attend(self, connection: socket.socket) -> None:
        try:
            if not self._greet(connection):
                return
            while True:
                message = receive(connection)
                self._may_answer()
                if _hung_up(connection):
                    return
                answer = self._answer(message)
                self._may_answer()
                self._called()
                try:
                    send(connection, answer)
                except BadFrame as error:
                    send(connection, plain_error(BackendFailed(str(error))))
        except BadFrame as error:
            with suppress(OSError):
                send(connection, plain_error(Refused(str(error))))
        except (Closed, OSError):
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        name = str(message.get("call"))
        try:
            method = METHODS.get(name)
            if method is None:
                raise Refused(f"{name!r:.60} is not a call of an agent", field="call")
            arguments = method.read_arguments(message.get("arguments"))
            return {"result": to_plain(method.of(self._node)(**arguments), compact=True)}
        except CorralError as error:
            return plain_error(error)
        except Exception as error:
            log.exception("%s failed", name)
            return plain_error(BackendFailed(f"the agent failed at {name}: {error!r:.200}"))


def _hung_up(connection: socket.socket) -> bool:
    """Return whether the caller has closed the connection. Its call is then skipped, because the caller may have called
    again on another connection.
    """
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _listener(path: Path) -> socket.socket:
    """Return a listening socket to which only this user and root may connect. Raises Refused if the path cannot be
    used.
    """
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise Refused(
            f"{path} is longer than the {SOCKET_PATH_BYTES} bytes that a socket's path may have", field="socket"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.is_socket() or path.is_symlink():
            # The socket is of an earlier agent, or leads to it: the lock of the home lets only one agent run.
            path.unlink()
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(MOST_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise Refused(f"the agent cannot answer at {path}: {error.strerror}", field="socket") from None
    return listener


def _show_socket(home: Home, path: Path) -> None:
    """Have the agent's socket found in its home, wherever it is: for `connect` and `release` on this host.

    Raises OSError.
    """
    shown = home.agent_socket
    if path != shown:
        shown.unlink(missing_ok=True)
        shown.symlink_to(path)


def run(options: AgentOptions) -> int:
    """Serve until SIGTERM. Return 0 after an orderly end, 1 if the agent could not start, or REPLACED."""
    os.umask(0o077)
    threading.excepthook = _crash
    try:
        _die_with(options.parent_pid)
        home = Home(Path(options.home).absolute())
        settings = load_settings(home.config_file if options.config is None else Path(options.config))
        claims = Claims(home) if options.claimed else None
        # The server that starts agents has a lock of its own: another agent can only be one of an earlier server.
        started = options.parent_pid is not None
        with only_process_of(home, patience_s=_LOCK_S if started else 0.0, by_force=started):
            node = LocalNode(
                home,
                settings,
                # With no running launch nothing is being timed, so a wall clock that was set since the boot can be
                # trusted.
                SystemClock(home.clock_file, anew=not home.launches.is_dir() or not any(home.launches.iterdir())),
                mock=None if options.mock is None else Path(options.mock),
                name=options.node,
                server_home=None if options.server_home is None else Path(options.server_home),
                address=options.address,
                accounts=None if claims is None else HostAccounts(partial(_only_user, claims)),
            )
            return _serve_node(node, home, claims, options, settings)
    except (CorralError, OSError) as error:
        log.error("%s", error)
        return 1


def _only_user(claims: Claims) -> str | None:
    owner = claims.owner()
    return None if owner is None else owner.user


def _serve_node(node: LocalNode, home: Home, claims: Claims | None, options: AgentOptions, settings: Settings) -> int:
    """Serve the node, with the faults of a mock file, and with its isolation rule for times without a server.

    Return what `run` does.
    """
    replaced = threading.Event()

    def switch_off() -> None:
        node.power_off()
        server.stop()

    def give_way() -> None:
        replaced.set()
        server.stop()

    with ExitStack() as stack:
        may_answer = called = _nothing
        faults = None if options.mock is None else MockFaults(Path(options.mock), options.node, switch_off)
        if faults is not None:
            may_answer = faults.wait_while_silent
            stack.callback(faults.close)
        if settings.on_isolation is OnIsolation.STOP:
            isolation = IsolationWatch(settings.node_gone_after_s, node.end_all)
            called = isolation.called
            stack.callback(isolation.close)
            isolation.start()
        node.installation = OwnInstallation(home, AgentPlaces.own(), give_way)
        name = options.node or os.uname().nodename
        server = AgentServer(node, name, Path(options.socket), claims=claims, may_answer=may_answer, called=called)
        if claims is not None:
            _show_socket(home, Path(options.socket).absolute())
        if faults is not None:
            faults.start()
        _serve(server)
    return REPLACED if replaced.is_set() else 0


def _serve(server: AgentServer) -> None:
    server.stop_at(signal.SIGTERM, signal.SIGINT)
    # Objects that are alive now live until the end: no collection need look at them again.
    gc.collect()
    gc.freeze()
    server.serve()


def _die_with(parent_pid: int | None) -> None:
    """End this process when its parent ends. Raises BackendFailed if the parent has ended already."""
    if parent_pid is not None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent_pid:
            raise BackendFailed(f"process {parent_pid}, which started this agent, has ended")


def _crash(failure: threading.ExceptHookArgs) -> None:
    """End this process at once after an unexpected error in a thread. The next agent reconciles."""
    thread = failure.thread.name if failure.thread is not None else "unknown"
    log.critical("the %s thread failed; the agent ends, its jobs run on", thread, exc_info=failure.exc_value)
    os._exit(BROKEN)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line of an agent."""
    parser = argparse.ArgumentParser(prog="corral agent", description="The agent of this host, in the foreground.")
    parser.add_argument("--home", required=True, help="directory for its records, logs and scratch")
    parser.add_argument("--socket", required=True, help="Unix socket to answer on")
    parser.add_argument("--mock", metavar="FILE", help="use the mock devices in this file, not real ones")
    parser.add_argument("--node", metavar="NAME", help="name of the node; default the host's name")
    parser.add_argument("--config", metavar="FILE", help="settings; default config.yaml in the home")
    parser.add_argument("--server-home", metavar="DIR", help="home of the server of the jobs; default the home")
    parser.add_argument("--address", default="127.0.0.1", help="address by which other hosts reach this one, for gangs")
    parser.add_argument("--parent-pid", type=int, help="end when this process, which must be the parent, does")
    parser.add_argument("--claimed", action="store_true", help="serve the one server that has joined this host")
    words = sys.argv[1:] if argv is None else argv
    options = AgentOptions(**vars(parser.parse_args(words)))
    log_to_stderr()
    status = run(options)
    if status == REPLACED:
        # The process stays the same, for systemd and for whoever started it.
        os.execv(AgentPlaces.own().command, ["corral", "agent", *words])
    return status


if __name__ == "__main__":
    sys.exit(main())
