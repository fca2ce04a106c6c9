"""The runtime that runs work on a host."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from corral.core.model.jobs.input import TerminalSize
from corral.core.model.runs.launch import Launch, LaunchReport, Lineage


@dataclass(frozen=True, slots=True)
class InnerCommand:
    """A command to run inside a running launch.

    Attributes:
        words: the program and its arguments.
        terminal: the size of its terminal; None without a terminal.
        term: the kind of that terminal (TERM); "" for the job's own.
        stdin: whether it is sent input; without it and without a terminal its input is empty.
    """

    words: tuple[str, ...]
    terminal: TerminalSize | None = None
    term: str = ""
    stdin: bool = False


@dataclass(frozen=True, slots=True)
class InnerOutput:
    """The next piece of a command's output, or its end.

    Attributes:
        sequence: the number of the piece; if there is no new piece, the number of the last piece.
        stdout: its output; at a terminal all of it.
        stderr: its error output.
        exit_code: as a shell's; None while it runs, or until all of its output has been returned.
        message: why it could not be started, or was ended.
    """

    sequence: int
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    message: str | None = None


class Execution(Protocol):
    """A command that runs inside a launch. No call waits for the command."""

    def write(self, offset: int, data: bytes, *, end: bool) -> tuple[int, bool]:
        """Pass input from byte `offset` on to the command, as much as it accepts now. Return the number of bytes
        accepted so far, and whether it accepts more.
        """
        ...

    def read(self, after: int) -> InnerOutput:
        """Return the piece after piece number `after`. A piece can be read again until the next piece is read."""
        ...

    def resize(self, size: TerminalSize) -> None:
        """Set the size of the command's terminal."""
        ...

    def close(self) -> None:
        """End the command and all processes that it has started: by SIGTERM, and some seconds later by SIGKILL."""
        ...


class MainProcesses(NamedTuple):
    """The main processes of a launch.

    Attributes:
        pids: empty once the main process has ended.
        relays: the processes that pass signals on to it, but take SIGTERM for an order to stop. Empty if processes of
            the launch are signalled themselves.
    """

    pids: frozenset[int] = frozenset()
    relays: frozenset[int] = frozenset()


class Work(Protocol):
    """Runs work, wherever that is. Every call is idempotent by launch id and safe from any thread."""

    def launch(self, launch: Launch) -> None:
        """Start the work. `report` returns the outcome. Raises BackendFailed."""
        ...

    def stop(self, launch_id: str) -> None:
        """Ask the work to end: by the gentle signal, then after the grace period all of its processes are killed.

        The caller repeats this until the work has ended.
        """
        ...

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Replace the time limit of running work. The limit counts from its start.

        Work that has run longer ends now, timed out. Does nothing if there is no such launch, or it is being stopped.
        """
        ...

    def report(self, launch_id: str) -> LaunchReport:
        """Return the current report of the launch."""
        ...

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        """Take the launch's claim so that it can never run. Return False if a supervisor had taken the claim before.

        Also False if the record is gone but the launch is known to have run: from the caller's `ran`, or from other
        traces. The rest of the work is then ended, and the report becomes DEAD.
        """
        ...

    def forget(self, launch_id: str) -> None:
        """Remove the record of a launch whose end is in the ledger."""
        ...

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        """Run a command inside running work: as the work's user, with its environment, directory, limits and devices.

        The command ends with the work at the latest. Raises Refused for work that takes no command, and BackendFailed.
        """
        ...

    def close(self) -> None:
        """Release the runtime; the work runs on."""
        ...


class Runtime(Work, Protocol):
    """Runs work on a host, where its processes are seen."""

    def launches(self) -> tuple[str, ...]:
        """Return the ids of all launches of which the runtime has a record."""
        ...

    def pids(self, launch_id: str) -> frozenset[int]:
        """Return the process ids of the work now."""
        ...

    def main_processes(self, launch_id: str) -> MainProcesses:
        """Return the work's main process, and for a gang's script also its shell."""
        ...

    def lineage(self, launch_id: str) -> Lineage:
        """Return the marks by which the work's processes are recognized. It must be quick, because it is called each
        time the devices are sampled.
        """
        ...
