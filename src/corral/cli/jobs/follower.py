"""Follow one job to its end: show its output, send its input, and pass on its user's Ctrl-C."""

import signal
import time
from contextlib import ExitStack, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING

from corral.cli.jobs.endings import ending_of
from corral.cli.jobs.input_stream import InputSource, InputStream, JobInput, StandardInput
from corral.cli.jobs.interrupts import STDOUT, pass_on
from corral.cli.jobs.waiting import Narrator
from corral.cli.screen import say
from corral.client import Client, JobRow, NoServer
from corral.core.model.errors import BackendFailed, Conflict, CorralError
from corral.core.model.runs.exit_code import exit_code_in_words

if TYPE_CHECKING:
    from corral.cli.jobs.terminal import Terminal

TIMED_OUT = 124
CORRAL_FAILED = 125
SIGNALLED = 128
INTERRUPTED = SIGNALLED + signal.SIGINT

RESTART_GRACE_S = 60.0
"""The longest wait for a server that went away while a job ran."""

AGENT_GRACE_S = 10.0
"""The longest wait for the rest of an ended job's output, if its node's agent restarts."""

_RECONNECT_S = 0.2
_SHOWN_BYTES = 8192
"""The length of the kept end of the output. It may already say why the job ended."""


class StoppedWaiting(Exception):
    """The last Ctrl-C: return without waiting for the job to end."""


class TerminalGone(Exception):
    """The terminal of a job was closed; `number` is the signal that reported it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def exit_code_for(row: JobRow, signalled: int | None = None) -> int:
    """The exit code of `run` for a job that ended as in `row`. `signalled` is the signal that this command received."""
    if row.phase == "TIMED_OUT":
        return TIMED_OUT
    if row.phase == "LOST":
        return CORRAL_FAILED
    if row.exit_code is not None:
        return row.exit_code
    if row.phase == "CANCELLED" and signalled is not None:
        return SIGNALLED + signalled
    return CORRAL_FAILED


def _is_to_be_told(row: JobRow, shown: bytes) -> bool:
    """Whether neither the exit code nor the last attempt's output in `shown` says how the job ended."""
    if row.reason is not None and row.reason.encode(errors="replace") not in shown:
        return True
    if row.phase != "SUCCEEDED" and (row.exit_code is None or row.phase in ("TIMED_OUT", "LOST")):
        return True
    if row.phase != "FAILED" or row.exit_code is None or row.signal in (None, signal.SIGINT) or row.reason:
        return False
    in_log = f"attempt {row.attempts} failed with {exit_code_in_words(row.exit_code, row.signal)}"
    return in_log.encode() not in shown


def _of_last_attempt(shown: bytes, row: JobRow) -> bytes:
    """The output after the line about the previous attempt's end: the last attempt may end in the same words."""
    before = shown.rfind(f"attempt {row.attempts - 1} failed".encode())
    return shown if before < 0 else shown[before:].partition(b"\n")[2]


class Follower:
    """Follows one job. During its life, this process passes SIGINT and SIGTERM on to the job.

    `terminal` is the terminal that the job uses; None for a job without one.
    """

    def __init__(self, client: Client, terminal: "Terminal | None" = None) -> None:
        self._client = client
        self._terminal = terminal
        self._job_id: str | None = None
        self._narrator: Narrator | None = None
        self._signalled: int | None = None
        self._cancelled = False
        self._cancel_unheard = False
        """Whether the job is to be cancelled, and the server does not know it yet."""
        self._terminal_gone: int | None = None
        self._shown = b""
        self._needs_us = terminal is not None
        """Whether the job ends without this command, because this command sends its input."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        if terminal is not None:
            for number in (signal.SIGHUP, signal.SIGQUIT):
                signal.signal(number, self._on_terminal_gone)

    def follow(self, job_id: str, *, sends_input: bool = False) -> int:
        """Stay until the job has ended. Return the exit code."""
        self._needs_us = self._needs_us or sends_input
        try:
            row = self._follow_to_end(job_id, sends_input)
        except StoppedWaiting:
            if self._cancel_unheard:
                say(f"job {job_id} is not cancelled: the server did not answer; use: corral cancel {job_id}")
            else:
                say(f"job {job_id} is being cancelled; `corral wait {job_id}` waits until it has ended")
            return INTERRUPTED
        except TerminalGone as gone:
            self._cancel()
            return SIGNALLED + gone.number
        if row is None:
            return SIGNALLED + signal.SIGPIPE
        shown = _of_last_attempt(self._shown, row)
        if _is_to_be_told(row, shown):
            say(ending_of(row))
        if row.phase == "FAILED" and row.exit_code != INTERRUPTED:
            self._say_why(job_id, shown)
        return exit_code_for(row, self._signalled)

    def _say_why(self, job_id: str, shown: bytes) -> None:
        """Say why the job failed, if that is known and not in its last output."""
        diagnosis = self._client.jobs.why(job_id).diagnosis
        if diagnosis is not None and diagnosis.encode(errors="replace") not in shown:
            say(diagnosis)

    def _follow_to_end(self, job_id: str, sends_input: bool) -> JobRow | None:
        """The row of the ended job. None if nobody reads our output any more, so that the job was cancelled."""
        self._job_id = job_id
        if self._terminal_gone is not None:
            raise TerminalGone(self._terminal_gone)
        if self._signalled is not None:
            self._cancel()
        try:
            with ExitStack() as stack:
                self._narrator = stack.enter_context(Narrator(job_id))
                if (source := self._source(job_id, sends_input)) is not None:
                    stack.enter_context(InputStream(JobInput(job_id), source))
                self._copy_output(job_id, self._narrator)
                return self._client.wait(job_id)[0]
        except BrokenPipeError:
            self._cancel()
            return None

    def _source(self, job_id: str, sends_input: bool) -> InputSource | None:
        if self._terminal is not None:
            from corral.cli.jobs.terminal import Keys

            say(f"job {job_id} gets this terminal; Ctrl-] three times within a second ends it")
            return Keys(self._terminal, JobInput(job_id), self._stop_narrator)
        return StandardInput() if sends_input else None

    def _copy_output(self, job_id: str, narrator: Narrator) -> None:
        """Copy the job's output until the job ends. Wait for a server or a node that is away in the meantime."""
        copied, away_since, server_away = 0, None, False
        while True:
            try:
                if self._cancel_unheard:
                    self._tell_to_cancel()
                if server_away:
                    # If the job writes nothing, its log does not show that the server is back.
                    self._client.jobs.get(job_id)
                    away_since, server_away = None, False
                for block in self._client.jobs.logs_bytes(job_id, follow=True, offset=copied):
                    narrator.stop()
                    if self._terminal is not None:
                        self._terminal.take()
                    self._show(block)
                    self._shown = (self._shown + block)[-_SHOWN_BYTES:]
                    copied += len(block)
                    away_since = None
                return
            except BackendFailed as error:
                now, server_away = time.monotonic(), isinstance(error, NoServer)
                if away_since is None:
                    away_since = now
                    who = "server" if server_away else "node"
                    back = f"its output continues here when the {who} is back"
                    self._say(f"lost the {who}; job {job_id} runs on, and {back}")
                elif server_away and not self._needs_us and now - away_since > RESTART_GRACE_S:
                    raise
                elif not server_away and now - away_since > AGENT_GRACE_S and self._has_ended(job_id):
                    self._say(f"the rest of the output of job {job_id} cannot be read: {error}")
                    return
                time.sleep(_RECONNECT_S)

    def _has_ended(self, job_id: str) -> bool:
        try:
            return self._client.jobs.get(job_id).ended
        except BackendFailed:
            return False

    def _show(self, block: bytes) -> None:
        try:
            pass_on(STDOUT, block)
        except BrokenPipeError:
            raise
        except OSError:
            if self._terminal is None:
                raise
            # The terminal may be gone before the signal arrives.
            raise TerminalGone(signal.SIGHUP) from None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        again, self._signalled = self._signalled is not None, number
        if self._job_id is None:
            if again and number == signal.SIGINT:
                raise StoppedWaiting
        elif number == signal.SIGINT and self._cancelled:
            raise StoppedWaiting
        elif number == signal.SIGINT and not again:
            self._interrupt()
        else:
            self._cancel()

    def _interrupt(self) -> None:
        """Send SIGINT to the job. Cancel a job that does not run yet, because there is nothing to interrupt."""
        self._stop_narrator()
        try:
            with Client() as client:
                client.jobs.signal(str(self._job_id), "INT")
        except Conflict:
            self._cancel()
        except CorralError as error:
            say(str(error))
            self._cancel()
        else:
            self._say(f"sent SIGINT to job {self._job_id}; press Ctrl-C again to cancel it")

    def _cancel(self) -> None:
        """Cancel the job over a new connection, because the usual one may be in the middle of an answer."""
        if self._cancelled and not self._cancel_unheard:
            return
        self._cancelled = True
        self._stop_narrator()
        if self._terminal is not None:
            self._terminal.give_back()
        self._say(f"cancelling job {self._job_id}; press Ctrl-C again to return without waiting for it to end")
        try:
            self._tell_to_cancel()
        except CorralError as error:
            say(str(error))

    def _tell_to_cancel(self) -> None:
        """Tell the server to cancel the job. Raises BackendFailed if the server is away and must be told later."""
        self._cancel_unheard = True
        try:
            with Client() as client:
                client.jobs.cancel(str(self._job_id))
        except BackendFailed:
            raise
        except CorralError as error:
            # The job has ended, or an earlier request without an answer cancelled it.
            say(str(error))
        self._cancel_unheard = False

    def _on_terminal_gone(self, number: int, frame: FrameType | None) -> None:
        # A shell passes on the SIGHUP that the kernel has sent already. The second must not interrupt the first's work.
        first, self._terminal_gone = self._terminal_gone is None, number
        if first and self._job_id is not None:
            raise TerminalGone(number)

    def _say(self, message: str) -> None:
        with nullcontext() if self._terminal is None else self._terminal.set_aside(), suppress(OSError):
            say(message)

    def _stop_narrator(self) -> None:
        if self._narrator is not None:
            self._narrator.stop()
