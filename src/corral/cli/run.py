"""`corral run`: queues a command, shows its output and exits with its exit code."""

import os
import signal
import sys
import time
from types import FrameType
from typing import Annotated

import typer

from corral.cli.dry_run import show_forecast
from corral.cli.endings import ending_of
from corral.cli.flags import JobFlags, spell, taking
from corral.cli.interrupts import interruptible
from corral.cli.screen import command_group, example, exit_code_of, say
from corral.cli.waiting import Narrator
from corral.client import Client, JobRow, NoServer
from corral.client.request import submission
from corral.model.errors import CorralError

TIMED_OUT = 124
CORRAL_FAILED = 125
SIGNALLED = 128

RESTART_GRACE_S = 60.0
"""How long to wait for a server that went away while a job ran."""

_RECONNECT_S = 0.2
_SHOWN_BYTES = 8192
"""How much of the end of the output is kept: it may already say why the job ended."""

app = command_group()


class _StoppedWaiting(Exception):
    """The second Ctrl-C: return without waiting for the job to end."""


@app.command(
    context_settings={"allow_interspersed_args": False},
    epilog=example("corral run --gpus 2 --min-memory 40G -- python train.py"),
)
@taking(JobFlags)
def run(
    flags: JobFlags,
    words: Annotated[list[str], typer.Argument(metavar="[--] COMMAND...", help="The command and its arguments.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Submit nothing; show whether and where it would start now.")
    ] = False,
    no_reservation: Annotated[
        bool, typer.Option("--no-reservation", help="Queue a job even in a shell that has a reservation.")
    ] = False,
) -> None:
    """Run a command on GPUs that nobody else uses, and wait for it.

    Shows the command's output; input is not passed on. While the job waits, the reason is shown on standard error.
    Ctrl-C and SIGTERM cancel the job; a second Ctrl-C returns at once. If this terminal closes, the job runs on:
    `corral logs -f` shows its output again.

    In a shell with a reservation (`corral reserve`) it runs at once on the reserved GPUs, in place of this command and
    not as a job. Two such commands get the same GPU only if both name it with --device.

    Exits with the command's exit code; 128+N after signal N; 126 or 127 if it cannot be started; 124 at its time limit;
    125 if Corral failed, or the job was lost or never ran; 2 for invalid flags.
    """
    try:
        with Client() as client:
            options = flags.options(client)
            if os.environ.get("CORRAL_RESERVATION") and not no_reservation:
                from corral.cli.local.reserved_run import run_reserved

                run_reserved(client, words, options, dry_run=dry_run)
            request = submission(words, options, spell=spell)
            if dry_run:
                raise typer.Exit(show_forecast(client.dry_run(request)))
            with interruptible():
                code = Follower(client).follow(client.submit(request).id)
    except CorralError as error:
        say(str(error))
        raise typer.Exit(exit_code_of(error, otherwise=CORRAL_FAILED)) from error
    except _StoppedWaiting:
        say("stopped before the server answered; `corral ps` shows whether the job was queued")
        code = SIGNALLED + signal.SIGINT
    raise typer.Exit(code)


def exit_code_for(row: JobRow, signalled: int | None = None) -> int:
    """What `run` exits with for a job that ended as `row` says; `signalled` is what this command was sent."""
    if row.phase == "TIMED_OUT":
        return TIMED_OUT
    if row.phase == "LOST":
        return CORRAL_FAILED
    if row.exit_code is not None:
        return row.exit_code
    if row.phase == "CANCELLED" and signalled is not None:
        return SIGNALLED + signalled
    return CORRAL_FAILED


class Follower:
    """Follows one job: copies its output here, and cancels it on our signals."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._job_id: str | None = None
        self._narrator: Narrator | None = None
        self._signalled: int | None = None
        self._shown = b""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def follow(self, job_id: str) -> int:
        """Stay until the job has ended; the exit code to end with."""
        try:
            row = self._follow_to_end(job_id)
        except _StoppedWaiting:
            say(f"job {job_id} is being cancelled; `corral wait {job_id}` waits until it has ended")
            return SIGNALLED + signal.SIGINT
        if row is None:
            return SIGNALLED + signal.SIGPIPE
        unheard = row.reason is not None and row.reason.encode(errors="replace") not in self._shown
        if unheard or (row.phase != "SUCCEEDED" and (row.exit_code is None or row.phase in ("TIMED_OUT", "LOST"))):
            say(ending_of(row))
        if row.phase == "FAILED":
            self._say_why(job_id)
        return exit_code_for(row, self._signalled)

    def _say_why(self, job_id: str) -> None:
        """Why the job failed, where that is known and was not the last line of its output."""
        diagnosis = self._client.jobs.why(job_id).diagnosis
        if diagnosis is not None and diagnosis.encode(errors="replace") not in self._shown:
            say(diagnosis)

    def _follow_to_end(self, job_id: str) -> JobRow | None:
        """How the job ended; None if nobody reads our output any more, so that the job was cancelled."""
        self._job_id = job_id
        if self._signalled is not None:
            self._cancel()
        try:
            with Narrator(job_id) as self._narrator:
                self._copy_output(job_id, self._narrator)
                return self._client.wait(job_id)[0]
        except BrokenPipeError:
            self._cancel()
            return None

    def _copy_output(self, job_id: str, narrator: Narrator) -> None:
        """Everything the job writes, until it ends. A server that restarts meanwhile is waited for."""
        output, copied, away_since = sys.stdout.buffer, 0, None
        while True:
            try:
                for block in self._client.jobs.logs(job_id, follow=True, offset=copied):
                    narrator.stop()
                    output.write(block)
                    output.flush()
                    self._shown = (self._shown + block)[-_SHOWN_BYTES:]
                    copied += len(block)
                    away_since = None
                return
            except NoServer:
                now = time.monotonic()
                if away_since is None:
                    away_since = now
                    say(f"lost the server; job {job_id} runs on, and its output continues here when the server is back")
                elif now - away_since > RESTART_GRACE_S:
                    raise
                time.sleep(_RECONNECT_S)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signalled is not None:
            if number == signal.SIGINT:
                raise _StoppedWaiting
            return
        self._signalled = number
        if self._job_id is not None:
            self._cancel()

    def _cancel(self) -> None:
        """Cancel over a new connection: the usual one may be in the middle of an answer."""
        if self._narrator is not None:
            self._narrator.stop()
        say(f"cancelling job {self._job_id}; press Ctrl-C again to return without waiting for it to end")
        try:
            with Client() as client:
                client.jobs.cancel(str(self._job_id))
        except CorralError as error:
            say(str(error))
