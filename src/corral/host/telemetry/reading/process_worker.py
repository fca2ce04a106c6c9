"""A worker that is a process: a call that hangs in the kernel keeps nothing but that process."""

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection

from corral.clock import SystemClock
from corral.host.telemetry.reading.worker import ReadAnswer, ReadOrder, SourceThread, Whereabouts, WorkerDied

_WHERE_WITHIN_S = 0.5
"""The time within which a process says where it is: it does so beside the call that hangs."""


class ProcessWorker:
    """A worker that is a process of its own. It reads the drivers of this host."""

    def __init__(self, boot_at: float, labels: Mapping[str, str]) -> None:
        """`boot_at` is that of this process's clock, by which the samples then are taken."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                _command(theirs.fileno(), boot_at, labels),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._line = Connection(ours.detach())
        self._answers: list[ReadAnswer] = []
        self._question = 0

    def begin(self, order: ReadOrder) -> None:
        """Have an order carried out."""
        self._say(order)

    def answer(self, timeout_s: float) -> ReadAnswer | None:
        """Return the next answer, None if none came in time. Raises WorkerDied."""
        if self._answers:
            return self._answers.pop(0)
        until_s = time.monotonic() + timeout_s
        while (told := self._hear(until_s - time.monotonic())) is not None:
            if isinstance(told, ReadAnswer):
                return told
        return None

    def where(self) -> Whereabouts | None:
        """Return where the worker is, None if it does not say so in time. Raises WorkerDied."""
        self._question += 1
        self._say(self._question)
        while (told := self._hear(_WHERE_WITHIN_S)) is not None:
            if isinstance(told, ReadAnswer):
                self._answers.append(told)
            elif told[0] == self._question:
                return told[1]
        return None

    def abandon(self) -> None:
        """Kill the process. One whose call hangs in the kernel ends when the call returns."""
        self._line.close()
        self._process.kill()

    def ended(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def _say(self, what: ReadOrder | int) -> None:
        # A process that has died shows when its answer is waited for.
        with contextlib.suppress(OSError):
            self._line.send(what)

    def _hear(self, timeout_s: float) -> ReadAnswer | tuple[int, Whereabouts] | None:
        """Return the next answer, or where the worker is with the number of the question; None after the timeout."""
        try:
            told: ReadAnswer | tuple[int, Whereabouts] | None = (
                self._line.recv() if self._line.poll(max(0.0, timeout_s)) else None
            )
            return told
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise WorkerDied(f"the process that reads the driver has ended ({self._end()})") from error

    def _end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_WHERE_WITHIN_S)
        code = self._process.returncode
        return "it runs on" if code is None else f"signal {-code}" if code < 0 else f"status {code}"


def main(fd: int, boot_at: float, labels: Mapping[str, str]) -> None:
    """Carry out the orders that come by the socket `fd`, until its other end is closed."""
    from corral.host.telemetry.discover import discover

    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    clock = SystemClock()
    clock.boot_at = boot_at
    line, talking = Connection(fd), threading.Lock()

    def send(what: ReadAnswer | tuple[int, Whereabouts]) -> None:
        # Whoever has gone needs no answer: the next read ends this process.
        with talking, contextlib.suppress(OSError):
            line.send(what)

    thread = SourceThread(discover(clock, labels=labels), send)
    while True:
        try:
            told = line.recv()
        except (EOFError, OSError):
            # The thread may hang in a call, which an orderly end would wait for.
            os._exit(0)
        if isinstance(told, ReadOrder):
            thread.begin(told)
        else:
            send((told, thread.where()))


def _command(fd: int, boot_at: float, labels: Mapping[str, str]) -> list[str]:
    """Return the command line that runs `main`, with the packages that this process has."""
    call = f"main({fd}, {boot_at!r}, {dict(labels)!r})"
    boot = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; {call}"
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", boot]
