"""What runs work on a host."""

from dataclasses import dataclass
from typing import Protocol

from corral.model.launch import Launch, LaunchReport, Lineage
from corral.model.terminal import TerminalSize


@dataclass(frozen=True, slots=True)
class InnerCommand:
    """A command to run inside what runs already.

    Attributes:
        words: the program and its arguments.
        terminal: it runs at one of this size, None without.
        term: the kind of that terminal (TERM), "" for as the job has it.
        stdin: it is sent input; without it and without a terminal its input is empty.
    """

    words: tuple[str, ...]
    terminal: TerminalSize | None = None
    term: str = ""
    stdin: bool = False


@dataclass(frozen=True, slots=True)
class InnerOutput:
    """The next piece of what a command has written, or how it has ended.

    Attributes:
        sequence: counts the pieces; that of the last one where there is nothing new.
        stdout: at a terminal all of it.
        stderr: what it wrote to standard error.
        exit_code: as of a shell; None while it runs, or not all of its output has been given.
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
        """Give it input from byte `offset` on, as much as it takes now: what it has had, and whether it takes more."""
        ...

    def read(self, after: int) -> InnerOutput:
        """The piece after that of this number. It may be asked for again until the next one is."""
        ...

    def resize(self, size: TerminalSize) -> None:
        """Set the size of its terminal."""
        ...

    def close(self) -> None:
        """End it, and all that it has started: SIGTERM, SIGKILL some seconds later."""
        ...


class Runtime(Protocol):
    """Runs work. Every call is idempotent by launch id and safe from any thread."""

    def launch(self, launch: Launch) -> None:
        """Start the work, or raise BackendFailed; the outcome comes through `report`."""
        ...

    def stop(self, launch_id: str) -> None:
        """Ask the work to end: the gentle signal, the grace, then every process of it is killed.

        To be asked again while it has not ended.
        """
        ...

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Hold work that has not ended to this limit, counted from its start, and no longer to the one it came with.

        Where it has run longer it ends now, timed out. Nothing where there is no such launch, or it is being stopped.
        """
        ...

    def report(self, launch_id: str) -> LaunchReport:
        """What is known of the launch now."""
        ...

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        """Take the launch's claim so that it can never run. False when a supervisor had it first.

        Also False where that is known although the record is gone: to the caller, who then says `ran`, or from other
        traces. What is left of the work is then ended, and the report becomes DEAD.
        """
        ...

    def launches(self) -> tuple[str, ...]:
        """Launch ids of every launch that the runtime still has on record."""
        ...

    def forget(self, launch_id: str) -> None:
        """Drop the record of a launch whose end is in the ledger."""
        ...

    def pids(self, launch_id: str) -> frozenset[int]:
        """Process ids of the work now."""
        ...

    def main_pids(self, launch_id: str) -> frozenset[int]:
        """The main process of the work, and of a gang's script also the shell that it runs; none once it has ended."""
        ...

    def lineage(self, launch_id: str) -> Lineage:
        """By what the processes of the work are known; asked for every look at the devices, so it must be quick."""
        ...

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        """Run a command inside work that runs: as its user, with its environment, directory, limits and devices.

        It ends with the work at the latest. Raises Refused for work that takes no command, BackendFailed.
        """
        ...

    def close(self) -> None:
        """Let go; the work runs on."""
        ...
