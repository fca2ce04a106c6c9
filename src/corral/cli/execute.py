"""`corral exec`: runs a command inside a running job, at this terminal or with pipes."""

import os
import signal
import sys
from contextlib import ExitStack, nullcontext
from types import FrameType
from typing import Annotated

import typer

from corral.cli.follower import CORRAL_FAILED, SIGNALLED
from corral.cli.input_stream import InputStream, StandardInput, has_input
from corral.cli.interrupts import interruptible
from corral.cli.screen import command_group, example, exit_code_of, say
from corral.cli.terminal import Keys, Terminal
from corral.client import Client
from corral.client.inner_process import STDOUT, InnerProcess
from corral.client.transport import Transport
from corral.model.answers.job_changes import InputProgress
from corral.model.errors import CorralError
from corral.model.terminal import TerminalSize

_STDIN = 0

app = command_group()


@app.command(
    "exec",
    context_settings={"allow_interspersed_args": False},
    epilog=example("corral exec 17 -- nvidia-smi", "corral exec 17", "corral exec --rank 1 --pty 17 -- top"),
)
def execute(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] [COMMAND...]", help="The command and its arguments; none: a shell."),
    ] = None,
    rank: Annotated[int, typer.Option("--rank", help="The member of a gang.", min=0)] = 0,
    pty: Annotated[
        bool, typer.Option("--pty", help="Give the command this terminal: for a debugger, an editor.")
    ] = False,
) -> None:
    """Run a command inside a running job.

    It runs on the job's node, as the job's user, with the job's environment, working directory, GPUs and limits. The
    job goes on as before, and nothing is added to its log; who ran which command is kept (`corral show`). Without a
    command it is a shell, at this terminal if standard input is one.

    Input, output and errors are passed on as they are. With --pty, and for a shell, the command has this terminal, and
    every key is for it: Ctrl-] three times within a second ends it.

    The command ends with the job, or with this: Ctrl-C ends it and all that it has started. Leave nothing running in
    the background.

    Only the job's user and administrators may. Exits with the command's exit code; 128+N after signal N; 126 or 127 if
    it cannot be started; 125 if Corral failed or the job does not run.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, _leave)
    # Options end with the job, so that this is taken for a word.
    words = words[1:] if words and words[0] == "--" else words or []
    at_terminal = pty or (not words and os.isatty(_STDIN))
    try:
        with ExitStack() as stack:
            terminal = stack.enter_context(Terminal()) if at_terminal else None
            code = _run(job_id, words, rank, terminal)
    except CorralError as error:
        say(str(error))
        raise typer.Exit(exit_code_of(error, otherwise=CORRAL_FAILED)) from error
    except _Left as left:
        code = SIGNALLED + left.number
    except BrokenPipeError:
        code = SIGNALLED + signal.SIGPIPE
    raise typer.Exit(code)


class _Left(Exception):
    """A signal told this command to end, and with it what it runs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _leave(number: int, frame: FrameType | None) -> None:
    # The next one must not interrupt what gives the terminal back.
    signal.signal(number, signal.SIG_IGN)
    raise _Left(number)


class _CommandInput:
    """A command inside a job, as what is given input: over connections of its own, for it is another thread's."""

    def __init__(self, client: Client, process: InnerProcess) -> None:
        self._process = InnerProcess(Transport(client.address), process.path)

    def __str__(self) -> str:
        return "the command"

    def write(self, client: Client, data: bytes, *, offset: int, end: bool) -> InputProgress:
        return self._process.write_input(data, offset=offset, end=end)

    def resize(self, client: Client, size: TerminalSize) -> None:
        self._process.resize_terminal(size.rows, size.columns)


def _run(job_id: str, words: list[str], rank: int, terminal: Terminal | None) -> int:
    """Its exit code."""
    sends = terminal is not None or has_input()
    size = None if terminal is None else terminal.size()
    rows, columns = (None, None) if size is None else (size.rows, size.columns)
    term = os.environ.get("TERM", "") if terminal is not None else ""
    with Client() as client, interruptible():
        process = client.jobs.begin_exec(job_id, words, rank=rank, stdin=sends, rows=rows, columns=columns, term=term)
        target = _CommandInput(client, process)
        source = StandardInput() if terminal is None else Keys(terminal, target, lambda: None)
        with InputStream(target, source) if sends else nullcontext():
            if terminal is not None:
                terminal.take()
            for stream, data in process.output():
                shown = sys.stdout.buffer if stream == STDOUT else sys.stderr.buffer
                shown.write(data)
                shown.flush()
    if terminal is not None:
        terminal.give_back()
    if process.message is not None:
        say(process.message)
    return CORRAL_FAILED if process.exit_code is None else process.exit_code
