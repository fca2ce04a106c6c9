"""`corral exec`: run a command inside a running job, at this terminal or with pipes."""

import os
import signal
from contextlib import ExitStack, nullcontext
from types import FrameType

from corral.cli.commands import running
from corral.cli.direct.named_job import job_meant
from corral.cli.jobs.follower import CORRAL_FAILED, SIGNALLED
from corral.cli.jobs.input_stream import InputStream, StandardInput, has_input
from corral.cli.jobs.interrupts import interruptible, pass_on
from corral.cli.jobs.terminal import Keys, Terminal
from corral.cli.screen import exit_code_of, say
from corral.client import Client
from corral.client.connecting.transport import Transport
from corral.client.inner_process import InnerProcess
from corral.core.model.answers.job_changes import InputProgress
from corral.core.model.errors import CorralError, Refused
from corral.core.model.jobs.input import TerminalSize

_STDIN = 0


def execute(given: running.ExecCommand) -> int:
    """Run `corral exec`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, _leave)
    # Options end with the job's id, so the parser takes -- for a word of the command.
    words = given.words[1:] if given.words and given.words[0] == "--" else given.words or []
    if words == given.words and words and words[0].startswith("-"):
        raise Refused(
            f"{words[0]:.60} stands after the job, where the command begins; write options before the job",
            field=words[0],
        )
    at_terminal = given.pty or (not words and os.isatty(_STDIN))
    try:
        with ExitStack() as stack:
            terminal = stack.enter_context(Terminal()) if at_terminal else None
            code = _run(given.job_id, words, given.rank, terminal)
    except CorralError as error:
        say(str(error))
        return exit_code_of(error, otherwise=CORRAL_FAILED)
    except _Left as left:
        code = SIGNALLED + left.number
    except BrokenPipeError:
        code = SIGNALLED + signal.SIGPIPE
    return code


class _Left(Exception):
    """A signal told this command to end, and with it the command inside the job."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _leave(number: int, frame: FrameType | None) -> None:
    # Another signal must not interrupt the code that restores the terminal.
    signal.signal(number, signal.SIG_IGN)
    raise _Left(number)


class CommandInput:
    """The input target of a command inside a job. It has its own connections, because another thread uses it."""

    def __init__(self, client: Client, process: InnerProcess) -> None:
        self._process = InnerProcess(Transport(client.address), process.path)

    def __str__(self) -> str:
        return "the command"

    def write(self, client: Client, data: bytes, *, offset: int, end: bool) -> InputProgress:
        return self._process.write_input(data, offset=offset, end=end)

    def resize(self, client: Client, size: TerminalSize) -> None:
        self._process.resize_terminal(size.rows, size.columns)


def _run(job_id: str, words: list[str], rank: int, terminal: Terminal | None) -> int:
    """Run the command and return its exit code."""
    sends = terminal is not None or has_input()
    size = None if terminal is None else terminal.size()
    rows, columns = (None, None) if size is None else (size.rows, size.columns)
    term = os.environ.get("TERM", "") if terminal is not None else ""
    with Client() as client, interruptible():
        job_id = job_meant(Transport(client.address), job_id, lives=True)
        process = client.jobs.begin_exec(job_id, words, rank=rank, stdin=sends, rows=rows, columns=columns, term=term)
        target = CommandInput(client, process)
        source = StandardInput() if terminal is None else Keys(terminal, target, lambda: None)
        with InputStream(target, source) if sends else nullcontext():
            if terminal is not None:
                terminal.take()
            for stream, data in process.output():
                pass_on(stream, data)
    if terminal is not None:
        terminal.give_back()
    if process.message is not None:
        say(process.message)
    return CORRAL_FAILED if process.exit_code is None else process.exit_code
