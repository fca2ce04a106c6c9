"""A command inside a container: `python -m corral.host.runtimes.docker.inner_command NAME TERM COMMAND...`.

It runs beside the container's runner, under the same supervisor, with the streams of the caller, and ends as the
command ends. TERM is "-" if these streams are pipes. Docker runs the command as the container's user, with the
container's environment, directory and rights. Docker has no call that ends a command, so this program ends its process
itself.
"""

import os
import select
import signal
import socket
import struct
import sys
import termios
import time
import tty
from contextlib import suppress
from typing import Any, NoReturn

from corral.host.runtimes.docker.daemon_calls import Daemon, DaemonRefused, DaemonUnreachable
from corral.host.runtimes.docker.explained_errors import explained
from corral.host.runtimes.process.ending.killing import signal_listed
from corral.host.runtimes.process.procfs import LocalProcess, descendants

FAILED = 125
PIPES = "-"

_READ_BYTES = 64 * 1024
_FIRST_BYTES = 4096
_FRAME = struct.Struct(">BxxxI")
_GRACE_S = 2.0


def _input() -> bytes:
    """Return bytes of standard input; b"" at its end."""
    try:
        return os.read(0, _READ_BYTES)
    except OSError:
        return b""


def _sent(line: socket.socket, data: bytes) -> bytes:
    """Send as much as there is room for. Return the rest; b"" if the other side is gone."""
    try:
        return data[line.send(data) :]
    except BlockingIOError:
        return data
    except OSError:
        return b""


class ContainerCommand:
    """One command, from its beginning to its end."""

    def __init__(self, container: str, term: str, words: list[str]) -> None:
        self._container = container
        self._term = None if term == PIPES else term
        self._words = words
        self._daemon = Daemon()
        self._id = ""
        self._first = b""

    def image(self) -> str:
        """Return the name of the container's image, for messages."""
        found = self._daemon.inspect(self._container) or {}
        return str((found.get("Config") or {}).get("Image"))

    def run(self) -> int:
        """Run the command and return its exit code."""
        env = {"TERM": self._term} if self._term else {}
        self._id = self._daemon.make_command(self._container, self._words, env, terminal=self._term is not None)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGHUP, self._end)
        line, early = self._daemon.start_command(self._id, terminal=self._term is not None)
        if self._term is not None:
            # Keys are interpreted by the terminal that Docker creates inside, even keys that were typed before it
            # existed.
            tty.setraw(0, termios.TCSANOW)
            signal.signal(signal.SIGWINCH, lambda *_: self._resize())
            self._resize()
        self._pass_on(line, early)
        ended = self._daemon.command(self._id)
        if not ended.get("Pid"):
            # The command was never started, and its output is only the reason. Exit like `docker exec`, but with the
            # exit code of a shell.
            return explained(self._first.decode(errors="replace"), "", self._words[0]).code
        return int(ended.get("ExitCode") or 0)

    def _pass_on(self, line: socket.socket, waiting: bytes) -> None:
        """Pass data both ways, until Docker's output ends."""
        waiting = self._show(waiting)
        # Never block on sending: a command that writes more than it reads would wait for its output to be read
        # meanwhile.
        line.setblocking(False)
        unsent, more = b"", True
        while True:
            reads: list[Any] = [line, 0] if more and not unsent else [line]
            ready, free, _ = select.select(reads, [line] if unsent else [], [])
            if free:
                unsent = _sent(line, unsent)
            if 0 in ready:
                unsent = _input()
                if not unsent:
                    more = False
                    with suppress(OSError):
                        line.shutdown(socket.SHUT_WR)
            if line in ready:
                data = line.recv(_READ_BYTES)
                if not data:
                    return
                waiting = self._show(waiting + data)

    def _show(self, data: bytes) -> bytes:
        """Write out the complete frames. Return the rest."""
        if self._term is not None:
            self._write(1, data)
            return b""
        while len(data) >= _FRAME.size:
            stream, length = _FRAME.unpack_from(data)
            if len(data) < _FRAME.size + length:
                break
            self._write(2 if stream == 2 else 1, data[_FRAME.size : _FRAME.size + length])
            data = data[_FRAME.size + length :]
        return data

    def _write(self, fd: int, data: bytes) -> None:
        self._first = (self._first + data)[:_FIRST_BYTES]
        while data:
            data = data[os.write(fd, data) :]

    def _resize(self) -> None:
        size = os.get_terminal_size(0)
        # A command that has just ended has no terminal any more.
        with suppress(DaemonRefused, DaemonUnreachable):
            Daemon().resize_command(self._id, size.lines, size.columns)

    def _end(self, number: int, frame: Any) -> NoReturn:
        """End the command, whose caller is gone: SIGTERM and SIGHUP to it and its descendants, two seconds later
        SIGKILL.
        """
        pid = int(Daemon().command(self._id).get("Pid") or 0)
        with suppress(ProcessLookupError):
            main = LocalProcess.of(pid) if pid else None

            def members() -> list[int]:
                return [pid, *descendants(pid)] if main is not None and main.is_alive() else []

            left = members()
            signal_listed(left, members, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT)
            until = time.monotonic() + _GRACE_S
            while members() and time.monotonic() < until:
                time.sleep(0.05)
            left = members()
            signal_listed(left, members, signal.SIGKILL)
        os._exit(128 + number)


def main(container: str, term: str, words: list[str]) -> int:
    """Run the command. Return its exit code, or a code for the reason why there is none."""
    image = "of the container"
    try:
        inner = ContainerCommand(container, term, words)
        image = inner.image()
        return inner.run()
    except DaemonRefused as error:
        refusal = explained(str(error), image, words[0])
        print(f"corral: {refusal.reason}", file=sys.stderr)
        return refusal.code
    except DaemonUnreachable as error:
        print(f"corral: the Docker daemon does not answer: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
