"""Joins standard input and output to the socket of an agent: `corral agent connect`, which a server runs by SSH.

It uses the standard library alone and starts quickly: a server runs it for each of its connections. Where no service
manager keeps the agent running, it starts the agent.
"""

import fcntl
import json
import os
import select
import socket
import sys
import time
from contextlib import suppress

MARK = b"corral-agent-connection "
"""Written before the agent's bytes, with the address that SSH has reached and a line's end.

A login shell may have written something before.
"""

NO_AGENT = 69
"""Exit status if no agent answers here: EX_UNAVAILABLE of sysexits.h."""

START_FILE = "start.json"
"""The file in the agent's home with the command that starts it, if nothing else on its host does."""

_PIECE_BYTES = 256 * 1024
_CONNECT_S = 5.0
_START_S = 20.0
_SUCCESSOR_S = 3.0
"""An agent that makes room for its next version listens again after this time, unless its host is very busy."""

_LOOK_AGAIN_S = 0.05


def connect(path: str) -> int:
    """Join standard input and output to the agent's socket until one side ends. Return the exit status."""
    try:
        agent = _agent_at(path, 0.0)
    except OSError as error:
        try:
            agent = _agent_started_at(path)
        except (OSError, ValueError):
            print(f"no agent of Corral answers at {path}: {error.strerror or error}", file=sys.stderr)
            return NO_AGENT
    with agent, suppress(OSError):
        _write(1, MARK + _reached_address().encode("ascii", "replace") + b"\n")
        _join(agent)
    return 0


def _agent_started_at(path: str) -> socket.socket:
    """Return a connection to the agent, which is started unless another comes by itself.

    Raises OSError or ValueError, at once if something else starts the agent.
    """
    home = os.path.dirname(path)
    os.stat(f"{home}/{START_FILE}")
    with suppress(OSError):
        return _agent_at(path, _SUCCESSOR_S)
    if not _is_served(home):
        start_agent(home)
    return _agent_at(path, _START_S)


def _is_served(home: str) -> bool:
    """Whether an agent runs that does not listen yet, or no more: it holds the lock of its home."""
    try:
        with open(f"{home}/corral.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def start_agent(home: str) -> None:
    """Start the agent as a process that outlives this one. Raises OSError or ValueError if that is not for us to do."""
    with open(f"{home}/{START_FILE}") as file:
        start = json.load(file)
    # It takes long to load, and is seldom needed.
    import subprocess

    log = os.open(f"{home}/agent.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        subprocess.Popen(
            start["words"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=start["environ"],
            start_new_session=True,
        )
    finally:
        os.close(log)


def _agent_at(path: str, patience_s: float) -> socket.socket:
    """Return a connection to the agent, which may take so long to listen. Raises OSError."""
    deadline = time.monotonic() + patience_s
    while True:
        agent = socket.socket(socket.AF_UNIX)
        try:
            agent.settimeout(_CONNECT_S)
            agent.connect(path)
            agent.settimeout(None)
            return agent
        except OSError:
            agent.close()
            if time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_AGAIN_S)


def _reached_address() -> str:
    """Return the address of this host at which SSH was reached, "" without SSH."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else ""


def _join(agent: socket.socket) -> None:
    """Copy bytes both ways. Raises OSError when one side is gone."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(agent, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == 0:
                piece = os.read(0, _PIECE_BYTES)
                agent.sendall(piece)
            else:
                piece = agent.recv(_PIECE_BYTES)
                _write(1, piece)
            if not piece:
                return


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


if __name__ == "__main__":
    sys.exit(connect(sys.argv[1]))
