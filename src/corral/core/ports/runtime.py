"""The runtime of work on a host."""

from dataclasses import dataclass
from typing import Protocol

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
        sequence: the number of the piece; that of the last one if there is no new one.
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
    """A command that runs inside a launch. No call waits for it."""

    def write(self, offset: int, data: bytes, *, end: bool) -> tuple[int, bool]:
        """Give it input from byte `offset` on, as much as it takes now. Return the bytes taken so far, and whether it
        takes more.
        """
        ...

    def read(self, after: int) -> InnerOutput:
        """Return the piece after that of this number. It can be read again until the next one is read."""
        ...

    def resize(self, size: TerminalSize) -> None:
        """Set the size of its terminal."""
        ...

    def close(self) -> None:
        """End it, and all that it has started: SIGTERM, SIGKILL some seconds later."""
        ...


class Work(Protocol):
    """Runs work, wherever that is. Every call is idempotent by launch id and safe from any thread."""

    def launch(self, launch: Launch) -> None:
        """Start the work, or raise BackendFailed; the outcome comes through `report`."""
        ...

    def stop(self, launch_id: str) -> None:
        """Ask the work to end: the gentle signal, the grace, then every process of it is killed.

        To be asked again while it has not ended.
        """
        ...

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Hold running work to this limit, counted from its start, in place of its earlier limit.

        Work that has run longer ends now, timed out. Does nothing if there is no such launch, or it is being stopped.
        """
        ...

    def report(self, launch_id: str) -> LaunchReport:
        """Return the present report of the launch."""
        ...

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        """Take the launch's claim so that it can never run. False if a supervisor had it first.

        Also False if the record is gone but the launch is known to have run: from the caller's `ran`, or from other
        traces. The rest of the work is then ended, and the report becomes DEAD.
        """
        ...

    def forget(self, launch_id: str) -> None:
        """Drop the record of a launch whose end is in the ledger."""
        ...

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        """Run a command inside work that runs: as its user, with its environment, directory, limits and devices.

        It ends with the work at the latest. Raises Refused for work that takes no command, BackendFailed.
        """
        ...

    def close(self) -> None:
        """Let go; the work runs on."""
        ...


class Runtime(Work, Protocol):
    """Runs work on a host, where its processes are seen."""

    def launches(self) -> tuple[str, ...]:
        """Launch ids of every launch that the runtime still has on record."""
        ...

    def pids(self, launch_id: str) -> frozenset[int]:
        """Process ids of the work now."""
        ...

    def main_pids(self, launch_id: str) -> frozenset[int]:
        """The main process of the work, and of a gang's script also the shell that it runs; none once it has ended."""
        ...

    def lineage(self, launch_id: str) -> Lineage:
        """Return the marks by which the work's processes are recognized. Called at every look at the devices: it must
        be quick.
        """
        ...
