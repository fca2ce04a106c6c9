"""The tasks of a step on this host: starts them, reads their output, signals them, and reports their ends."""

import os
import selectors
import signal
from collections.abc import Callable
from typing import NamedTuple

NOT_FOUND = 127
CANNOT_RUN = 126
_READ_BYTES = 64 * 1024
_SIGNALS = frozenset(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}


class TaskSpec(NamedTuple):
    """A program to execute. With None, `output` and `error` are those of srun, or a pipe to it if `piped`."""

    rank: int
    argv: list[str]
    env: dict[str, str]
    output: str | None
    error: str | None
    piped: tuple[bool, bool]


class TaskEnd(NamedTuple):
    """The end of a task: its exit code (128+N on signal N), and the reason if it could not be started."""

    rank: int
    code: int
    signal: int
    message: str = ""


class Tasks:
    """Runs some tasks. The caller's selector serves them: the caller must call the data of ready keys.

    `heard(rank, stream, data)` gets a task's output from a pipe; stream is 1 or 2. `ended` gets the task's end.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        heard: Callable[[int, int, bytes], None],
        ended: Callable[[TaskEnd], None],
    ) -> None:
        self._selector = selector
        self._heard = heard
        self._ended = ended
        self._pids: dict[int, int] = {}
        self._pipes: dict[int, list[tuple[int, int]]] = {}

    def start(self, spec: TaskSpec) -> None:
        """Execute the task in a process group of its own; an error is reported as its end."""
        opened: list[int] = []
        pipes: list[tuple[int, int]] = []
        try:
            actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]  # type: ignore[list-item]
            for stream, path, piped in ((1, spec.output, spec.piped[0]), (2, spec.error, spec.piped[1])):
                if path is not None and path == spec.output and stream == 2:
                    actions.append((os.POSIX_SPAWN_DUP2, 1, 2))
                elif path is not None:
                    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o666)
                    opened.append(fd)
                    actions.append((os.POSIX_SPAWN_DUP2, fd, stream))
                elif piped:
                    reader, writer = os.pipe2(os.O_CLOEXEC)
                    opened.append(writer)
                    pipes.append((reader, stream))
                    actions.append((os.POSIX_SPAWN_DUP2, writer, stream))
            # posix_spawnp looks the program up on this process's own PATH.
            os.environ["PATH"] = spec.env.get("PATH", os.defpath)
            pid = os.posix_spawnp(
                spec.argv[0],
                spec.argv,
                spec.env,
                file_actions=actions,
                setpgroup=0,
                setsigmask=(),
                setsigdef=_SIGNALS,
            )
        except OSError as error:
            for reader, _ in pipes:
                os.close(reader)
            code = NOT_FOUND if isinstance(error, (FileNotFoundError, NotADirectoryError)) else CANNOT_RUN
            what = error.filename if isinstance(error.filename, str) else spec.argv[0]
            self._ended(TaskEnd(spec.rank, code, 0, f"cannot run {what:.400}: {error.strerror}"))
            return
        finally:
            for fd in opened:
                os.close(fd)
        self._watch(spec.rank, pid, pipes)

    def _watch(self, rank: int, pid: int, pipes: list[tuple[int, int]]) -> None:
        self._pids[rank] = pid
        self._pipes[rank] = pipes
        for reader, stream in pipes:
            os.set_blocking(reader, False)
            self._selector.register(
                reader, selectors.EVENT_READ, lambda reader=reader, stream=stream: self._hear(rank, reader, stream)
            )
        handle = os.pidfd_open(pid)
        self._selector.register(handle, selectors.EVENT_READ, lambda: self._reap(rank, handle))

    @property
    def left(self) -> int:
        """The number of tasks that still run."""
        return len(self._pids)

    def signal(self, number: int) -> None:
        """Send a signal to every task and its descendants, as far as they are still in its process group."""
        for pid in tuple(self._pids.values()):
            try:
                os.killpg(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def _hear(self, rank: int, reader: int, stream: int) -> bool:
        """Read available output. Return False if there is none now, or no more at all."""
        try:
            data = os.read(reader, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._heard(rank, stream, data)
            return True
        self._close(rank, reader, stream)
        return False

    def _close(self, rank: int, reader: int, stream: int) -> None:
        self._pipes[rank].remove((reader, stream))
        self._selector.unregister(reader)
        os.close(reader)

    def _reap(self, rank: int, handle: int) -> None:
        _, status = os.waitpid(self._pids.pop(rank), 0)
        self._selector.unregister(handle)
        os.close(handle)
        # Descendants may keep the pipes open for ever. The task's own output is in the pipes by now.
        for reader, stream in tuple(self._pipes[rank]):
            while self._hear(rank, reader, stream):
                pass
        for reader, _ in self._pipes.pop(rank):
            self._selector.unregister(reader)
            os.close(reader)
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        self._ended(TaskEnd(rank, 128 + number if number else os.WEXITSTATUS(status), number))
