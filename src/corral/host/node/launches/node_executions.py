"""Commands that run inside launches of this host, with the time of the last call about each."""

import base64
import logging
import threading
import time
from collections.abc import Callable

from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.runs.launch import checked_launch_id
from corral.core.ports.node import ExecOutput, InputTaken
from corral.core.ports.runtime import Execution, InnerCommand
from corral.host.runtimes.process.output.job_input import check_size, portion_of

log = logging.getLogger(__name__)

UNHEARD_S = 10.0
"""The longest time without a call about a command. Then the server or the user's connection is gone, and the command is
ended.
"""

MOST = 64
"""The most commands that run on a host at once: each has a process and some descriptors."""

_LOOK_S = 1.0


class NodeExecutions:
    """The commands, by ids that the server chose. Safe from any thread; nothing is stored on disk."""

    def __init__(self, execute: Callable[[str, InnerCommand], Execution]) -> None:
        self._execute = execute
        self._lock = threading.Lock()
        # A launch runs one start at a time, because its supervisor has one socket. A few locks serve all launches.
        self._doors = tuple(threading.Lock() for _ in range(MOST))
        self._known: dict[str, Execution | None] = {}
        self._heard_at: dict[str, float] = {}
        self._closed = threading.Event()
        self._watch: threading.Thread | None = None

    def begin(self, exec_id: str, launch_id: str, command: InnerCommand) -> None:
        """Begin a command as `corral.core.ports.node.InnerCommands.begin` does."""
        checked_launch_id(launch_id)
        with self._lock:
            if exec_id in self._known:
                return
            if len(self._known) >= MOST:
                raise BackendFailed(f"{MOST} commands run inside jobs on this node, the limit; try again later")
            self._known[exec_id], self._heard_at[exec_id] = None, time.monotonic()
        try:
            with self._doors[hash(launch_id) % MOST]:
                execution = self._execute(launch_id, command)
        except BaseException:
            with self._lock:
                self._drop(exec_id)
            raise
        with self._lock:
            wanted = exec_id in self._known and not self._closed.is_set()
            if wanted:
                self._known[exec_id], self._heard_at[exec_id] = execution, time.monotonic()
                self._watch_them()
        if not wanted:
            execution.close()
            raise BackendFailed("the command was ended before it had begun")

    def write(self, exec_id: str, offset: int, data: str, *, end: bool) -> InputTaken | None:
        """Pass input as `corral.core.ports.node.InnerCommands.write` does. Raises Refused."""
        portion = portion_of(data, offset)
        execution = self._find(exec_id)
        return None if execution is None else InputTaken(*execution.write(offset, portion, end=end))

    def resize(self, exec_id: str, size: TerminalSize) -> None:
        """Set the size of a terminal as `corral.core.ports.node.InnerCommands.resize` does. Raises Refused."""
        check_size(size)
        if (execution := self._find(exec_id)) is not None:
            execution.resize(size)

    def read(self, exec_id: str, after: int) -> ExecOutput | None:
        """Return output as `corral.core.ports.node.InnerCommands.read` does."""
        execution = self._find(exec_id)
        if execution is None:
            return None
        piece = execution.read(after)
        stdout, stderr = (base64.b64encode(data).decode() for data in (piece.stdout, piece.stderr))
        return ExecOutput(piece.sequence, stdout, stderr, piece.exit_code, piece.message)

    def end(self, exec_id: str) -> None:
        """End a command as `corral.core.ports.node.InnerCommands.end` does."""
        with self._lock:
            execution = self._drop(exec_id)
        if execution is not None:
            execution.close()

    def close(self) -> None:
        """End all commands."""
        self._closed.set()
        for exec_id in tuple(self._known):
            self.end(exec_id)

    def _find(self, exec_id: str) -> Execution | None:
        with self._lock:
            execution = self._known.get(exec_id)
            if execution is not None:
                self._heard_at[exec_id] = time.monotonic()
            return execution

    def _drop(self, exec_id: str) -> Execution | None:
        self._heard_at.pop(exec_id, None)
        return self._known.pop(exec_id, None)

    def _watch_them(self) -> None:
        if self._watch is None:
            self._watch = threading.Thread(target=self._end_unheard, name="executions", daemon=True)
            self._watch.start()

    def _end_unheard(self) -> None:
        """Run as long as there are commands, and end those about which no call came for UNHEARD_S."""
        while not self._closed.wait(_LOOK_S):
            with self._lock:
                before = time.monotonic() - UNHEARD_S
                # The caller of a command that has not begun yet still waits for its start.
                begun = {exec_id for exec_id, execution in self._known.items() if execution is not None}
                gone = [one for one, heard_at in self._heard_at.items() if one in begun and heard_at < before]
                if not self._known:
                    self._watch = None
                    return
            for exec_id in gone:
                log.info("command %s inside a job is ended: nobody has asked after it for %g s", exec_id, UNHEARD_S)
                self.end(exec_id)
