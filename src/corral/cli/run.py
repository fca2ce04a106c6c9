"""`corral run`: queues a command, shows its output and exits with its exit code."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from corral.cli.dry_run import show_forecast
from corral.cli.flag_classes import taking
from corral.cli.flags import JobFlags, spell
from corral.cli.follower import CORRAL_FAILED, INTERRUPTED, Follower, StoppedWaiting
from corral.cli.input_stream import has_input
from corral.cli.interrupts import interruptible
from corral.cli.screen import command_group, complain_of, example, exit_code_of, say
from corral.cli.split_words import refuse_assignment
from corral.client import Client
from corral.client.request import submission
from corral.model.errors import CorralError, Refused
from corral.model.submission import Submission

_NOT_STARTED = {"program": 127, "program.mode": 126}
"""Exit codes by the field that was refused, as shells have them."""

app = command_group()


@app.command(
    context_settings={"allow_interspersed_args": False},
    epilog=example(
        "corral run --gpus 2 --min-memory 40G -- python train.py",
        "corral run -- python generate.py < prompts.txt",
        "corral run --gpus 1 --pty -- bash",
    ),
)
@taking(JobFlags)
def run(
    flags: JobFlags,
    words: Annotated[list[str], typer.Argument(metavar="[--] COMMAND...", help="The command and its arguments.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Submit nothing; show whether and where it would start now.")
    ] = False,
    pty: Annotated[
        bool, typer.Option("--pty", help="Give the command this terminal: for a shell, a debugger, an editor.")
    ] = False,
    no_reservation: Annotated[
        bool, typer.Option("--no-reservation", help="Queue a job even in a shell that has a reservation.")
    ] = False,
) -> None:
    """Run a command on GPUs that nobody else uses, and wait for it.

    Shows the command's output, its errors among it as in the log, on standard output. The job's id, and while it waits
    the reason, are shown on standard error.

    Ctrl-C interrupts the job (SIGINT); while it still waits, it cancels it. A second Ctrl-C cancels it (SIGTERM, and
    SIGKILL if that does not end it in time), a third returns at once. SIGTERM cancels it, too.

    Input from a file or a pipe is passed on to the command; from a terminal it is not. A job that has read input is
    not run again: the input cannot be given twice. If this terminal closes, a job without input, or with all of it,
    runs on: `corral logs -f` shows its output again.

    With --pty the command has this terminal, and every key, Ctrl-C too, is for it. Ctrl-] three times within a second
    ends the job; so does closing this terminal.

    In a shell with a reservation (`corral reserve`) it runs at once on the reserved GPUs, in place of this command and
    not as a job. Two such commands get the same GPU only if both name it with --device.

    Exits with the command's exit code; 128+N after signal N; 126 or 127 if it cannot be started; 124 at its time limit;
    125 if Corral failed, or the job was lost or never ran; 2 for invalid flags.
    """
    try:
        refuse_assignment(words[0])
        with Client() as client:
            options = flags.options(client)
            if os.environ.get("CORRAL_RESERVATION") and not no_reservation:
                from corral.cli.local.reserved_run import run_reserved

                run_reserved(client, words, options, dry_run=dry_run)
            request = submission(words, options, spell=spell)
            if dry_run:
                raise typer.Exit(show_forecast(client.dry_run(request)))
            code = _at_terminal(client, request) if pty else _run(client, replace(request, stdin=has_input()))
    except CorralError as error:
        complain_of(error)
        refused = error.field if isinstance(error, Refused) else None
        code = _NOT_STARTED.get(refused or "", exit_code_of(error, otherwise=CORRAL_FAILED))
        raise typer.Exit(code) from error
    except StoppedWaiting:
        say("stopped before the server answered; `corral ps` shows whether the job was queued")
        code = INTERRUPTED
    raise typer.Exit(code)


def _run(client: Client, request: Submission) -> int:
    with interruptible():
        follower = Follower(client)
        job_id = client.submit(request).id
        say(f"job {job_id}")
        return follower.follow(job_id, sends_input=request.stdin)


def _at_terminal(client: Client, request: Submission) -> int:
    """Run it at this terminal. Programs ask the terminal for its size, unless variables tell them an old one."""
    from corral.cli.terminal import Terminal

    env = {name: value for name, value in request.env.items() if name not in ("LINES", "COLUMNS")}
    with Terminal() as terminal, interruptible():
        request = replace(request, terminal=terminal.size(), env=env)
        return Follower(client, terminal).follow(client.submit(request).id)
