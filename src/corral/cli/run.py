"""`corral run`: queue a command, stand by it as if it ran here, and end as it ends."""

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
"""How long a server that went away while a job ran is waited for."""

_RECONNECT_S = 0.2
_SHOWN_BYTES = 8192
"""So much of the end of the output is kept, which may have said already why the job ended as it did."""

app = command_group()


class _LeftBehind(Exception):
    """The second Ctrl-C: stand by it no longer."""


@app.command(
    context_settings={"allow_interspersed_args": False},
    epilog=example("corral run --gpus 2 --min-memory 40G -- python train.py"),
)
@taking(JobFlags)
def run(
    flags: JobFlags,
    words: Annotated[list[str], typer.Argument(metavar="[--] COMMAND...", help="The command and its arguments.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell whether it would start now, and on what.")
    ] = False,
) -> None:
    """Run a command on GPUs that nobody else has, and stand by it.

    Its output is streamed here; input is not forwarded. Ctrl-C and SIGTERM cancel it; a second Ctrl-C stops waiting
    for its end. While it waits for its turn, the reason is told on standard error. If this terminal is closed it runs
    on, and `corral logs -f` shows it again.

    Exits as the command does: with its code, 128+N after signal N, 126 or 127 if it cannot be started; with 124 after
    its time limit, 125 if Corral failed or the job was lost or never ran, 2 for bad flags.
    """
    try:
        with Client() as client:
            request = submission(words, flags.options(client), spell=spell)
            if dry_run:
                raise typer.Exit(show_forecast(client.dry_run(request)))
            with interruptible():
                code = Attendance(client).attend(client.submit(request).id)
    except CorralError as error:
        say(str(error))
        raise typer.Exit(exit_code_of(error, otherwise=CORRAL_FAILED)) from error
    except _LeftBehind:
        say("the server had not answered yet; `corral ps` shows whether it took the job")
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


class Attendance:
    """Standing by one job: its output to ours, our signals to it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._job_id: str | None = None
        self._narrator: Narrator | None = None
        self._signalled: int | None = None
        self._shown = b""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def attend(self, job_id: str) -> int:
        """Stay until the job has ended; the exit code to end with."""
        try:
            row = self._stand_by(job_id)
        except _LeftBehind:
            say(f"job {job_id} is being cancelled; `corral wait {job_id}` waits for its end")
            return SIGNALLED + signal.SIGINT
        if row is None:
            return SIGNALLED + signal.SIGPIPE
        unheard = row.reason is not None and row.reason.encode(errors="replace") not in self._shown
        if unheard or (row.phase != "SUCCEEDED" and (row.exit_code is None or row.phase in ("TIMED_OUT", "LOST"))):
            say(ending_of(row))
        return exit_code_for(row, self._signalled)

    def _stand_by(self, job_id: str) -> JobRow | None:
        """How the job ended; None when nobody reads its output any more, and it is cancelled."""
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
                    say(f"the server went away; job {job_id} goes on, and its output follows when the server is back")
                elif now - away_since > RESTART_GRACE_S:
                    raise
                time.sleep(_RECONNECT_S)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signalled is not None:
            if number == signal.SIGINT:
                raise _LeftBehind
            return
        self._signalled = number
        if self._job_id is not None:
            self._cancel()

    def _cancel(self) -> None:
        """Ask over a connection of its own: the usual one may be in the middle of something."""
        if self._narrator is not None:
            self._narrator.stop()
        say(f"cancelling job {self._job_id}; Ctrl-C again stops waiting for its end")
        try:
            with Client() as client:
                client.jobs.cancel(str(self._job_id))
        except CorralError as error:
            say(str(error))
