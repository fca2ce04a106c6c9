"""A command inside a running job, from the node agent's side.

The supervisor of the job gets a signal. It finds the agent waiting at a socket in the directory of the launch, which no
other user can enter, and forks a *keeper* (`native/exec.c`). The keeper receives the words of the command and its
streams. It runs the command in the environment of the job's own program, and reports its end. It lives as long as this
connection: if the agent goes, the command is ended.
"""

import array
import fcntl
import os
import socket
import termios
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.input import TerminalSize
from corral.core.ports.runtime import InnerCommand, InnerOutput
from corral.unix_peer import peer_of

SOCKET = "exec"
"""The socket's name in the directory of the launch."""

ANSWER_WITHIN_S = 3.0
"""A supervisor answers within milliseconds, unless its job has stopped it or it is of an earlier version."""

PIECE_BYTES = 1024 * 1024
"""The most bytes read of each stream at once. Each takes a round trip, and small ones are slow on distant hosts."""

_PIPE_BYTES = PIECE_BYTES
_MESSAGE_BYTES = 4096
_KILLED = 137
_FAILED = 125


def connect_keeper(directory: str, tell: Callable[[], None], message: bytes, fds: Sequence[int]) -> socket.socket:
    """Let the supervisor of this launch run the command in the message. `tell` signals the supervisor. Return the
    connection to the keeper.

    Raises BackendFailed if the supervisor does not fetch the command.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        inside = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # The path goes through the descriptor, because the full path may be too long for a socket.
        path = f"/proc/self/fd/{inside}/{SOCKET}"
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(ANSWER_WITHIN_S)
            tell()
            keeper, _ = listener.accept()
        finally:
            with suppress(OSError):
                os.unlink(path)
            os.close(inside)
    try:
        if peer_of(keeper).uid != os.geteuid():
            raise BackendFailed("who came for the command is not the job's supervisor")
        keeper.settimeout(ANSWER_WITHIN_S)
        keeper.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        keeper.setblocking(False)
    except BaseException:
        keeper.close()
        raise
    return keeper


def message_of(command: InnerCommand) -> bytes:
    """Return the message to the keeper. Raises ValueError for an impossible command."""
    texts = (command.term if command.terminal is not None else "", *command.words)
    if not command.words or not command.words[0] or any("\0" in text for text in texts):
        raise ValueError("no command")
    kind = b"p" if command.terminal is None else b"t"
    return kind + b"".join(os.fsencode(text) + b"\0" for text in texts)


class ProcessExecution:
    """One command inside a job. Safe from any thread; no call waits for the command. Implements
    `corral.core.ports.runtime.Execution`.
    """

    def __init__(
        self,
        command: InnerCommand,
        begin: Callable[[bytes, Sequence[int]], socket.socket],
        owner: tuple[int, int] | None,
    ) -> None:
        """`begin` gives a message and three streams to a keeper. The streams belong to the `owner`, a uid and gid.

        Raises BackendFailed, OSError.
        """
        self._lock = threading.Lock()
        self._is_terminal = command.terminal is not None
        self._taken = 0
        self._sequence = 0
        self._last = InnerOutput(0)
        self._end: InnerOutput | None = None
        self._open: list[int] = []
        self._theirs: list[int] = []
        try:
            if command.terminal is not None:
                self._make_terminal(command.terminal, owner)
            else:
                self._make_pipes(owner, stdin=command.stdin)
            self._keeper = begin(message_of(command), self._theirs)
        except BaseException:
            self._close_all()
            raise
        finally:
            for fd in set(self._theirs):
                os.close(fd)

    def write(self, offset: int, data: bytes, *, end: bool) -> tuple[int, bool]:
        with self._lock:
            new = data[self._taken - offset :] if offset <= self._taken else b""
            if new and self._input >= 0:
                try:
                    self._taken += os.write(self._input, new)
                except BlockingIOError:
                    pass
                except OSError:
                    # No process has the input open for reading any more.
                    self._close_input()
            if end and self._taken == offset + len(data) and not self._is_terminal:
                self._close_input()
            return self._taken, self._input >= 0 and self._end is None

    def read(self, after: int) -> InnerOutput:
        with self._lock:
            if after < self._sequence:
                return self._last
            self._hear()
            stdout, stderr = _read(self._output), _read(self._error)
            if stdout or stderr:
                self._last = InnerOutput(self._sequence + 1, stdout, stderr)
            elif self._end is not None:
                self._last = InnerOutput(self._sequence + 1, exit_code=self._end.exit_code, message=self._end.message)
            else:
                return InnerOutput(self._sequence)
            self._sequence += 1
            return self._last

    def resize(self, size: TerminalSize) -> None:
        with self._lock, suppress(OSError):
            if self._is_terminal and self._input >= 0:
                resize(self._input, size.rows, size.columns)

    def close(self) -> None:
        with self._lock:
            self._keeper.close()
            self._close_all()

    def _make_terminal(self, size: TerminalSize, owner: tuple[int, int] | None) -> None:
        ours, theirs = _open_terminal(size.rows, size.columns, -1 if owner is None else owner[0])
        self._open, self._theirs = [ours], [theirs] * 3
        self._input, self._output, self._error = ours, ours, -1

    def _make_pipes(self, owner: tuple[int, int] | None, *, stdin: bool) -> None:
        def pipe() -> tuple[int, int]:
            reader, writer = os.pipe()
            if owner is not None:
                # A program that opens /dev/stdin or /dev/stderr opens the pipe anew. Only the pipe's owner may do that.
                os.fchown(reader, *owner)
                os.fchown(writer, *owner)
            with suppress(OSError):
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            return reader, writer

        self._input, self._output, self._error = -1, -1, -1
        if stdin:
            theirs, self._input = pipe()
            self._open.append(self._input)
        else:
            theirs = os.open(os.devnull, os.O_RDONLY)
        self._theirs.append(theirs)
        for name in ("_output", "_error"):
            ours, theirs = pipe()
            self._open.append(ours)
            self._theirs.append(theirs)
            setattr(self, name, ours)
        for fd in self._open:
            os.set_blocking(fd, False)

    def _hear(self) -> None:
        """Process the keeper's messages."""
        while self._end is None:
            try:
                said = self._keeper.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            self._end = _end_of(said)

    def _close_input(self) -> None:
        if self._input >= 0 and not self._is_terminal:
            os.close(self._input)
            self._open.remove(self._input)
            self._input = -1

    def _close_all(self) -> None:
        for fd in self._open:
            os.close(fd)
        self._open = []
        self._input = self._output = self._error = -1


def _read(fd: int) -> bytes:
    """Return the available bytes. A terminal that no process has open any more gives an error."""
    if fd < 0:
        return b""
    try:
        return os.read(fd, PIECE_BYTES)
    except OSError:
        return b""


def _end_of(said: bytes) -> InnerOutput | None:
    """Return the end of the command, or None. The keeper's message is a number and words of ours."""
    word, _, rest = said.decode(errors="backslashreplace").partition(" ")
    code, _, message = rest.partition(" ")
    match word:
        case "started":
            return None
        case "exited":
            return InnerOutput(0, exit_code=int(code))
        case "failed":
            return InnerOutput(0, exit_code=_FAILED if int(code) < 0 else int(code), message=message)
    return InnerOutput(0, exit_code=_KILLED, message="it was ended with its job")


# This flag is not in the standard library. It declares the input as UTF-8, so that a backspace erases one character.
_IUTF8 = 0o40000


def _open_terminal(rows: int, columns: int, uid: int) -> tuple[int, int]:
    """Return two ends of a new terminal: the agent's, which does not block, and the command's, which user `uid` (-1:
    the server's) may open.

    Raises OSError if the machine has no (more) terminals.
    """
    ours, programs = os.openpty()
    try:
        os.set_blocking(ours, False)
        # No other user may write to the terminal, as wall(1) and write(1) do to most terminals.
        os.fchmod(programs, 0o600)
        if uid != -1:
            os.fchown(programs, uid, -1)
        modes = termios.tcgetattr(programs)
        modes[0] |= _IUTF8
        termios.tcsetattr(programs, termios.TCSANOW, modes)
        resize(ours, rows, columns)
    except BaseException:
        os.close(ours)
        os.close(programs)
        raise
    return ours, programs


def resize(terminal: int, rows: int, columns: int) -> None:
    """Set the size of a terminal. The programs in its foreground get SIGWINCH."""
    termios.tcsetwinsize(terminal, (rows, columns))
