"""`corral run`: queue a command, show its output and exit with its exit code."""

import os
from dataclasses import replace

from corral.cli.commands import running
from corral.cli.jobs.dry_run import show_forecast
from corral.cli.jobs.flags import options_of, spell
from corral.cli.jobs.follower import CORRAL_FAILED, INTERRUPTED, Follower, StoppedWaiting
from corral.cli.jobs.input_stream import has_input
from corral.cli.jobs.interrupts import interruptible
from corral.cli.screen import complain_of, exit_code_of, say
from corral.cli.scripts.split_words import refuse_assignment
from corral.client import Client
from corral.client.submitting.request import submission
from corral.core.model.errors import CorralError, Refused
from corral.core.model.jobs.submission import Submission

_NOT_STARTED = {"program": 127, "program.mode": 126}
"""Exit codes by the field that was refused. They are those of shells."""


def run(given: running.RunCommand) -> int:
    """Run `corral run`."""
    try:
        refuse_assignment(given.words[0])
        with Client() as client:
            options = options_of(given.flags, client)
            if os.environ.get("CORRAL_RESERVATION") and not given.no_reservation:
                from corral.cli.local.reserved_run import run_reserved

                run_reserved(client, given.words, options, dry_run=given.dry_run)
            request = submission(given.words, options, spell=spell)
            if given.dry_run:
                return show_forecast(client.dry_run(request))
            code = _at_terminal(client, request) if given.pty else _run(client, replace(request, stdin=has_input()))
    except CorralError as error:
        complain_of(error)
        refused = error.field if isinstance(error, Refused) else None
        return _NOT_STARTED.get(refused or "", exit_code_of(error, otherwise=CORRAL_FAILED))
    except StoppedWaiting:
        say("stopped before the server answered; `corral ps` shows whether the job was queued")
        code = INTERRUPTED
    return code


def _run(client: Client, request: Submission) -> int:
    with interruptible():
        follower = Follower(client)
        job_id = client.submit(request).id
        say(f"job {job_id}")
        return follower.follow(job_id, sends_input=request.stdin)


def _at_terminal(client: Client, request: Submission) -> int:
    """Run the command at this terminal. Old sizes in variables are removed, so that programs ask the terminal."""
    from corral.cli.jobs.terminal import Terminal

    env = {name: value for name, value in request.env.items() if name not in ("LINES", "COLUMNS")}
    with Terminal() as terminal, interruptible():
        request = replace(request, terminal=terminal.size(), env=env)
        return Follower(client, terminal).follow(client.submit(request).id)
