"""Starts agents for the nodes of a mock cluster on this host. They are forked from one process that has loaded all
modules.

That process reads options from its socket, forks an agent for each message, and answers with a descriptor of the agent.
When the server closes the socket or dies, that process and the agents end; their jobs run on.
"""

import gc
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.home import Home
from corral.event_log import log_to_stderr
from corral.files import read_own_end
from corral.host.node.agent import AgentOptions, run
from corral.host.node.protocol import BadFrame, Closed, receive
from corral.pid_file import make_home
from corral.wire import from_plain, to_plain

START_S = 60.0
"""The time within which all agents of a cluster must answer, even on a slow machine."""

_LOOK_AGAIN_S = 0.02
_GREETING_S = 1.0
"""The time limit for the greeting of an earlier server's agent. After that a new agent replaces it."""
_END_S = 10.0
_OPTIONS_BYTES = 64 * 1024
_LOG_TAIL_BYTES = 2048
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class _Agent:
    pid: int
    pidfd: int
    socket: Path

    def ended(self, timeout_s: float = 0.0) -> bool:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))


class AgentSpawner:
    """Starts and ends agents by the names of their nodes; for one thread.

    An agent's home is `nodes/NAME` in the server's. `mock` describes the nodes' devices, `config` is the server's file
    of settings.
    """

    def __init__(self, server_home: Home, *, mock: Path, config: Path) -> None:
        self._server_home = server_home.root
        self._mock = mock
        self._config = config
        self._agents: dict[str, _Agent] = {}
        self._forks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        isolation = "-I" if sys.flags.isolated else "-P"
        with theirs:
            self._parent = subprocess.Popen(
                [sys.executable, isolation, "-m", "corral.host.node.mock.spawn", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    def start(self, names: Iterable[str]) -> dict[str, Path]:
        """Start these nodes' agents and return their sockets; living agents are left as they are.

        Raises Refused for a name that cannot name a directory, BackendFailed if an agent does not come up.
        """
        wanted = tuple(names)
        for name in wanted:
            if not self.lives(name):
                if name in self._agents:
                    os.close(self._agents.pop(name).pidfd)
                self._agents[name] = self._fork(name)
        deadline = time.monotonic() + START_S
        for name in wanted:
            self._await(name, deadline)
        return {name: self._agents[name].socket for name in wanted}

    def home_of(self, name: str) -> Home:
        """Return the home of a node's agent."""
        return Home(Home(self._server_home).nodes / name)

    def socket_of(self, name: str) -> Path:
        """Return the path of the socket of this node's agent."""
        return self.home_of(name).root / "agent.sock"

    def lives(self, name: str) -> bool:
        """Return whether the agent of this node was started and has not ended."""
        return name in self._agents and not self._agents[name].ended()

    def pid(self, name: str) -> int:
        """Return the pid of a node's agent. Raises KeyError if none was started."""
        return self._agents[name].pid

    def end(self, name: str) -> None:
        """End a node's agent; its jobs run on."""
        agent = self._agents.pop(name)
        _signal(agent, signal.SIGTERM)
        _reap(agent)

    def close(self) -> None:
        """End all agents, and the process from which they were forked."""
        for agent in self._agents.values():
            _signal(agent, signal.SIGTERM)
        for agent in self._agents.values():
            _reap(agent)
        self._agents.clear()
        self._forks.close()
        self._parent.wait()

    def _fork(self, name: str) -> _Agent:
        if not _NAME.fullmatch(name):
            raise Refused(f"{name!r:.80} cannot be the name of a node: use letters, digits and . _ -", field="name")
        home = self.home_of(name)
        options = AgentOptions(
            home=str(home.root),
            socket=str(self.socket_of(name)),
            mock=str(self._mock),
            node=name,
            config=str(self._config),
            server_home=str(self._server_home),
        )
        _ = home.notify_socket  # whose path may be too long, which is told here in words
        try:
            self._forks.send(json.dumps(to_plain(options)).encode())
            pid, handles, _, _ = socket.recv_fds(self._forks, 32, 1)
        except OSError as error:
            raise BackendFailed(f"the agent of node {name} cannot be started: {error.strerror}") from None
        if not handles:
            raise BackendFailed(f"the agent of node {name} cannot be started: {pid.decode() or 'it cannot be forked'}")
        os.set_inheritable(handles[0], False)
        return _Agent(int(pid), handles[0], Path(options.socket))

    def _await(self, name: str, deadline: float) -> None:
        agent = self._agents[name]
        while not _greets(agent.socket, min(deadline, time.monotonic() + _GREETING_S)):
            if agent.ended():
                raise BackendFailed(f"the agent of node {name} did not come up: {_last_words(agent.socket.parent)}")
            if time.monotonic() >= deadline:
                raise BackendFailed(f"the agent of node {name} did not come up within {START_S:g} s")
            time.sleep(_LOOK_AGAIN_S)


def _greets(path: Path, until: float) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
            receive(connection, until)
        except (OSError, Closed, BadFrame):
            return False
    return True


def _signal(agent: _Agent, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(agent.pidfd, number)


def _reap(agent: _Agent) -> None:
    """Wait for the end of an agent. Kill it if it hangs."""
    if not agent.ended(_END_S):
        _signal(agent, signal.SIGKILL)
        agent.ended(_END_S)
    os.close(agent.pidfd)


def _last_words(home: Path) -> str:
    try:
        lines = read_own_end(home / "agent.log", _LOG_TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError as error:
        return f"its log cannot be read: {error.strerror}"
    return lines[-1] if lines else "it said nothing"


# The process that agents are forked from


def serve_forks(server: socket.socket) -> None:
    """Fork an agent for each message until the server closes the socket. The agents notice the end of this process."""
    # Modules that an agent loads on first use are loaded here once for all agents.
    import yaml  # noqa: F401

    import corral.host.telemetry.mock  # noqa: F401

    # The kernel reaps the agents.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    while message := server.recv(_OPTIONS_BYTES):
        try:
            pid, handle = _fork_agent(server, message)
        except OSError as error:
            server.send(str(error.strerror).encode())
            continue
        socket.send_fds(server, [str(pid).encode()], [handle])
        os.close(handle)


def _fork_agent(server: socket.socket, message: bytes) -> tuple[int, int]:
    """Return the pid of a new agent, and a descriptor of its process."""
    parent_pid = os.getpid()
    held, release = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            server.close()
            os.close(release)
            # The child waits for its pidfd: if it ended earlier it would be reaped, and its exit status lost.
            os.read(held, 1)
            os.close(held)
            _become(replace(from_plain(AgentOptions, json.loads(message)), parent_pid=parent_pid))
        return pid, os.pidfd_open(pid)
    finally:
        os.close(held)
        os.close(release)


def _become(options: AgentOptions) -> NoReturn:
    """Run as the agent with these options, with a log in its home."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        home = Path(options.home)
        for directory in (home.parent, home):
            make_home(directory)
        log = os.open(f"{options.home}/agent.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        log_to_stderr()
        status = run(options)
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve_forks(socket.socket(fileno=int(sys.argv[1])))
