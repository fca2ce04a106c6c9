"""`corral run`: queue a command, show its output and exit with its exit code."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from corral.cli.commands import running
from corral.cli.jobs.dry_run import show_forecast
from corral.cli.jobs.files import fetch_what_is_left, showing_uploads
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
                if given.forward:
                    raise Refused(
                        "--forward is for jobs, and in this shell the command runs at once on the reserved GPUs; "
                        "write --no-reservation to queue a job",
                        field="--forward",
                    )
                from corral.cli.local.reserved_run import run_reserved

                run_reserved(client, given.words, options, dry_run=given.dry_run)
            request = submission(given.words, options, spell=spell)
            if given.dry_run:
                return show_forecast(client.dry_run(request))
            begun = _forwarder(given.forward or [])
            if given.pty:
                return _at_terminal(client, request, begun)
            return _run(client, replace(request, stdin=has_input()), begun)
    except CorralError as error:
        complain_of(error)
        refused = error.field if isinstance(error, Refused) else None
        return _NOT_STARTED.get(refused or "", exit_code_of(error, otherwise=CORRAL_FAILED))
    except StoppedWaiting:
        say("stopped before the server answered; `corral ps` shows whether the job was queued")
        return INTERRUPTED


def _forwarder(spelled: Sequence[str]) -> Callable[[str], None]:
    """Return what is to be done once the job has an id: its ports are forwarded. Raises Refused for an invalid port."""
    if not spelled:
        return lambda job_id: None
    from corral.cli.reaching.beside_run import forward_beside
    from corral.cli.reaching.forwarded_ports import ForwardedPort

    ports = {one.port: one for one in map(ForwardedPort, spelled)}
    return lambda job_id: forward_beside(job_id, ports)


def _run(client: Client, request: Submission, begun: Callable[[str], None]) -> int:
    with interruptible():
        follower = Follower(client)
        with showing_uploads(client):
            job_id = client.submit(request).id
        say(f"job {job_id}")
        begun(job_id)
        code = follower.follow(job_id, sends_input=request.stdin)
        _fetch(client, job_id, request)
        return code


def _fetch(client: Client, job_id: str, request: Submission) -> None:
    """Fetch what the job has left, if it was asked for and the job has ended. The exit code stays the job's."""
    if request.download is not None and client.jobs.get(job_id).ended:
        try:
            fetch_what_is_left(client, job_id, request.workdir, request.download)
        except CorralError as error:
            complain_of(error)


def _at_terminal(client: Client, request: Submission, begun: Callable[[str], None]) -> int:
    """Run the command at this terminal. Old sizes in variables are removed, so that programs ask the terminal."""
    from corral.cli.jobs.terminal import Terminal

    env = {name: value for name, value in request.env.items() if name not in ("LINES", "COLUMNS")}
    with Terminal() as terminal, interruptible():
        request = replace(request, terminal=terminal.size(), env=env)
        with showing_uploads(client):
            job_id = client.submit(request).id
        begun(job_id)
        code = Follower(client, terminal).follow(job_id)
    _fetch(client, job_id, request)
    return code
