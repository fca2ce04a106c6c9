"""The program on the members of a gang whose script runs on rank 0: it waits for commands from there, and runs them.

One connection to rank 0 is always kept waiting. When a step comes on it, a process of its own serves the step, and the
next connection is made. When rank 0 ends, the connection ends, and so does the member.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from . import channel, handshake
from .layout import devices_of, devices_variable
from .options import BadUsage
from .tasks import TaskEnd, Tasks, TaskSpec

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_ANSWER_S = 10.0
_GRACE_S = 10.0
_OWN = ("CORRAL_", "CUDA_MPS_")
_OWN_NAMES = frozenset({"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
_IGNORED = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGALRM, signal.SIGVTALRM}
)
"""Signals that this program ignores. Every process of a job gets them, and they are meant for the tasks."""


def main() -> NoReturn:
    """Serve steps until rank 0 has ended."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    host, _, port = os.environ.pop("CORRAL_SRUN_ADDRESS").rpartition(":")
    secret, rank = os.environ.pop("CORRAL_SRUN_SECRET"), int(os.environ["CORRAL_RANK"])
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True
        raise InterruptedError

    signal.signal(signal.SIGTERM, stop)
    met = False
    try:
        while True:
            line = _meet(host, int(port), secret, rank, again=met)
            if line is None:
                break
            met = True
            if not line.recv(1, socket.MSG_PEEK):
                break
            _serve_apart(line)
    except (InterruptedError, ConnectionError):
        # The steps were told to stop too, or their srun is gone.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _wait_for_steps()
    sys.exit(128 + signal.SIGTERM if stopped else 0)


def _meet(host: str, port: int, secret: str, rank: int, *, again: bool) -> socket.socket | None:
    """Return a connection to rank 0, which may not have begun yet. None if rank 0 has ended."""
    pause_s = _FIRST_PAUSE_S
    while True:
        _reap()
        try:
            line = socket.create_connection((host, port), timeout=_ANSWER_S)
            said, expected = handshake.hello(secret, rank, channel.exactly(line, handshake.NONCE_BYTES))
            line.sendall(said)
            if channel.exactly(line, len(expected)) != expected:
                raise channel.Broken("somebody who does not know the secret of the launch")
            line.settimeout(None)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return line
        except InterruptedError:
            raise
        except (OSError, channel.Broken) as error:
            if again and isinstance(error, ConnectionRefusedError):
                return None
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _wait_for_steps() -> None:
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def _serve_apart(line: socket.socket) -> None:
    """Serve the step on this connection in a process of its own."""
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            _Step(line).serve()
        finally:
            os._exit(0)
    line.close()


class _Step:
    """One step on this member: its tasks, and their srun."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._frames = channel.Frames(line)
        self._selector = selectors.DefaultSelector()
        self._tasks = Tasks(self._selector, self._heard, self._ended)
        self._begun = False
        self._kill_at: float | None = None

    def serve(self) -> None:
        self._selector.register(self._line, selectors.EVENT_READ, self._read)
        while not self._begun or self._tasks.left:
            timeout = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
            channel.serve(self._selector, timeout)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._tasks.signal(signal.SIGKILL)
                self._kill_at = time.monotonic() + _GRACE_S

    def _read(self) -> None:
        try:
            for kind, payload in self._frames.read():
                if kind == channel.STEP:
                    self._begin(json.loads(payload))
                elif kind == channel.SIGNAL:
                    self._tasks.signal(int(payload))
        except channel.Broken:
            self._abandon()

    def _abandon(self) -> None:
        """End the tasks, because their srun is gone."""
        if self._kill_at is None:
            self._begun = True
            self._selector.unregister(self._line)
            self._kill_at = time.monotonic() + _GRACE_S
            self._tasks.signal(signal.SIGTERM)

    def _begin(self, step: dict[str, Any]) -> None:
        self._begun = True
        variable = devices_variable(os.environ)
        kept = {*_OWN_NAMES, variable}
        own = {name: value for name, value in os.environ.items() if name in kept or name.startswith(_OWN)}
        try:
            os.umask(step["umask"])
            os.chdir(step["cwd"])
        except OSError as error:
            for rank, *_ in step["tasks"]:
                self._ended(TaskEnd(rank, 1, 0, f"cannot enter {step['cwd']:.400}: {error.strerror}"))
            return
        for number, (rank, variables, output, error_file) in enumerate(step["tasks"]):
            env = {**step["env"], **own, **variables}
            try:
                if step["gpus_per_task"] is not None:
                    env[variable] = devices_of(number, step["gpus_per_task"], own.get(variable, ""))
            except BadUsage as error:
                self._ended(TaskEnd(rank, 1, 0, str(error)))
                continue
            piped = (output is None, error_file is None)
            self._tasks.start(TaskSpec(rank, step["argv"], env, output, error_file, piped))

    def _heard(self, rank: int, stream: int, data: bytes) -> None:
        try:
            channel.send_output(self._line, rank, stream, data)
        except OSError:
            self._abandon()

    def _ended(self, end: TaskEnd) -> None:
        try:
            channel.send_json(self._line, channel.END, end)
        except OSError:
            self._abandon()
