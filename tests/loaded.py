"""Servers and agents for tests, which begin with everything loaded.

Four fifths of the work of a server's start is to load its modules. A process that has loaded them forks those that
tests ask for. Each begins as its module does that is run as a program: detached, at `/`, with its own environment, log
and command line.
"""

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

SERVER, AGENT = "corral.daemon", "corral.host.node.agent"

_ROOM = 1000
"""The bytes kept for a command line in that of the process that forks."""
_OF_A_TEST = ("CORRAL_", "COLUMNS", "PYTEST_CURRENT_TEST")
"""How names of variables begin that no library reads as it is loaded."""

Environment = Mapping[str, str]


class Loaded:
    """The process that forks, as a caller sees it."""

    def __init__(self) -> None:
        self._env = _lasting(os.environ)
        self._turn = Lock()
        command = [sys.executable, "-P", __file__, " " * _ROOM]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._env, cwd="/"
        )

    def can_begin(self, env: Environment) -> bool:
        """Whether a process of this environment can be forked: what a library reads of it at its start is the same."""
        return _lasting(env) == self._env

    def begin(self, env: Environment, log: Path, words: Sequence[str]) -> str:
        """Begin a server. Return what it said: `ready` in the end, or why it could not start."""
        said: str = self._asked([SERVER, words, dict(env), str(log)])[1]
        return said

    def begin_agent(self, words: Sequence[str]) -> "Agent":
        """Begin the agent of a node. What it says is lost."""
        return Agent(self._asked([AGENT, words, dict(os.environ), os.devnull])[0], self)

    def status_of(self, pid: int) -> int:
        """The status with which a process ended. It must have."""
        status: int = self._asked([pid])
        return status

    def end(self) -> None:
        self._process.communicate()

    def _asked(self, order: Sequence[Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())


@dataclass(frozen=True)
class Agent:
    """An agent that was forked, with what tests ask of a process of their own."""

    pid: int
    _parent: Loaded

    def wait(self, patience_s: float | None = None) -> int:
        """Its exit status once it has ended. Raises TimeoutError."""
        try:
            end = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return self._parent.status_of(self.pid)
        try:
            if not select.select([end], [], [], patience_s)[0]:
                raise TimeoutError(f"the agent {self.pid} has not ended")
        finally:
            os.close(end)
        return self._parent.status_of(self.pid)

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        try:
            return self.wait(0.0)
        except TimeoutError:
            return None

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


_loaded: list[Loaded] = []


def loaded() -> Loaded:
    """The one process of all tests that this one runs."""
    if not _loaded:
        _loaded.append(Loaded())
    return _loaded[0]


def end_loaded() -> None:
    """End it, if there is one."""
    while _loaded:
        _loaded.pop().end()


def _lasting(env: Environment) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(_OF_A_TEST)}


def _fork_as_asked() -> None:
    gc.disable()
    _load()
    gc.freeze()
    statuses: dict[int, int] = {}
    signal.signal(signal.SIGCHLD, lambda *_: _reap(statuses))
    for line in sys.stdin:
        order = json.loads(line)
        if len(order) == 1:
            _reap(statuses)
            print(json.dumps(statuses[order[0]]), flush=True)
        else:
            print(json.dumps(_forked(*order)), flush=True)


def _load() -> None:
    for name in ("corral.app.server", AGENT, "corral.engines.kubernetes.engine.engine"):
        importlib.import_module(name)
    for build in Path(importlib.import_module("corral.features").__path__[0]).glob("*/build.py"):
        importlib.import_module(f"corral.features.{build.parent.name}.build")


def _reap(statuses: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        statuses[pid] = os.waitstatus_to_exitcode(status)


def _forked(module: str, words: list[str], env: dict[str, str], log: str) -> tuple[int, str]:
    """The pid of a new process, and all that it said to who started it: nothing if it is no server."""
    read_fd, write_fd = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(read_fd)
        try:
            _run(module, [*words, "--ready-fd", str(write_fd)] if module == SERVER else words, env, log)
        finally:
            os._exit(1)
    os.close(write_fd)
    with os.fdopen(read_fd) as ready:
        return pid, ready.read() if module == SERVER else ""


def _run(module: str, words: list[str], env: dict[str, str], log: str) -> NoReturn:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(env)
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, standard in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(fd, standard)
    os.close(nothing)
    os.close(written)
    sys.argv = [module, *words]
    _show_words([sys.executable, "-P", "-m", module, *words])
    if module == SERVER:
        from corral.app.daemon import leave, main

        leave(main(words))
    from corral.host.node.agent import main as main_of_agent

    os._exit(main_of_agent(words))


def _show_words(words: Sequence[str]) -> None:
    """Let /proc show these words as the command line of this process, as others look there for servers."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    shown = b"".join(os.fsencode(word) + b"\0" for word in words)
    assert len(shown) <= end - start, "the command line has no room"
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    _fork_as_asked()
