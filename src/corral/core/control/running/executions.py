"""Commands that users run inside a running job: their permissions, their limits, and their nodes.

A command is no job: it shares the resources of its job. It ends with the job, its client or this server, whichever ends
first. The ledger records that it was run. Its input and output are passed on and never stored.
"""

import base64
import logging
import math
import secrets
import shlex
import threading
from collections.abc import Callable
from dataclasses import dataclass

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.permissions import may_change
from corral.core.control.launching.attempts import Attempts
from corral.core.control.querying.queries import Queries
from corral.core.model.answers.job_changes import InputProgress
from corral.core.model.errors import BackendFailed, Conflict, CorralError, NotFound, Refused
from corral.core.model.fact import CommandExecuted
from corral.core.model.jobs.input import MOST_CELLS, InputState, TerminalSize
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.node import NodeAgent
from corral.core.ports.runtime import InnerCommand, InnerOutput

log = logging.getLogger(__name__)

MOST_OF_A_JOB = 8
MOST_OF_A_USER = 16
"""The most commands that run at once inside one job, and of one user in all jobs."""

MOST_BYTES = 64 * 1024
"""The most bytes of all words of a command together."""

KEPT_CHARACTERS = 1_000
"""The most characters of a command that the ledger records."""

UNCLAIMED_S = 10.0
"""The time within which a reader of a command's output must come. After it, the command does not count in the
limits.
"""

_SIGNALLED = 128

SHELL = (
    "sh",
    "-c",
    'for shell in "$SHELL" bash; do command -v "$shell" >/dev/null 2>&1 && exec "$shell"; done; exec sh',
)
"""The command if none is given."""


@dataclass(slots=True)
class _Running:
    job_id: str
    user: str
    launch: Launch
    begun_at: float = math.inf
    followed: bool = False


class Executions:
    """Runs commands inside jobs. Calls may take as long as a node's answer. Thread-safe."""

    def __init__(
        self,
        ledger: Ledger,
        queries: Queries,
        attempts: Attempts,
        clock: Clock,
        agent_of: Callable[[Launch], NodeAgent],
    ) -> None:
        """`agent_of` returns the agent of a launch's node. It raises NodeUnreachable, at once for a silent node."""
        self._ledger = ledger
        self._queries = queries
        self._attempts = attempts
        self._clock = clock
        self._agent_of = agent_of
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}

    def begin(self, job_id: str, command: InnerCommand, rank: int, caller: Caller) -> str:
        """Run a command inside a member of a job, a shell if it has no words. Return the id of the execution.

        Raises Conflict for a job that does not run, and if too many commands run already.
        """
        job = self._queries.find(job_id)
        may_change(caller, job)
        _check(command)
        _refuse_kind(job)
        _refuse_phase(job)
        launch = self._launch(job, rank)
        exec_id = self._admit(job, caller, launch)
        words = shlex.join(command.words)[:KEPT_CHARACTERS].encode(errors="backslashreplace").decode()
        try:
            self._write_down(job, CommandExecuted(job.id, words, rank, at=self._clock.now(), by=caller.user))
            run = InnerCommand(command.words or SHELL, command.terminal, command.term, command.stdin)
            self._agent_of(launch).executions.begin(exec_id, launch.id, run)
            self._note_begun(exec_id)
        except Conflict as error:
            self._forget(exec_id)
            _refuse_phase(self._queries.find(job_id))
            raise Conflict(f"job {job.id} does not run now ({error}); `corral show {job.id}` shows its state") from None
        except BaseException:
            self._forget(exec_id)
            raise
        log.info("job %s: %s runs a command in it, on %s", job.id, caller.user, launch.node)
        return exec_id

    def write(self, job_id: str, exec_id: str, offset: int, data: bytes, *, end: bool, caller: Caller) -> InputProgress:
        """Pass as much of this input to the command as it accepts now. With `end` no more input follows."""
        found = self._found(job_id, exec_id, caller)
        taken = self._agent_of(found.launch).executions.write(exec_id, offset, base64.b64encode(data).decode(), end=end)
        if taken is None:
            return InputProgress(offset, InputState.CLOSED)
        return InputProgress(taken.offset, InputState.OPEN if taken.open else InputState.CLOSED)

    def resize(self, job_id: str, exec_id: str, size: TerminalSize, caller: Caller) -> None:
        """Set the size of the command's terminal."""
        found = self._found(job_id, exec_id, caller)
        _check_size(size)
        self._agent_of(found.launch).executions.resize(exec_id, size)

    def follow(self, job_id: str, exec_id: str, caller: Caller) -> "FollowedExecution":
        """Return the reader of the command's output; the caller must close it. Raises Conflict if the output has a
        reader already.
        """
        found = self._found(job_id, exec_id, caller)
        with self._lock:
            if found.followed:
                raise Conflict(f"another client already reads the output of command {exec_id}")
            found.followed = True
        return FollowedExecution(self, exec_id, found.job_id, found.launch)

    def agent_of(self, launch: Launch) -> NodeAgent:
        """Return the agent of the launch's node. Raises NodeUnreachable."""
        return self._agent_of(launch)

    def end_of_job(self, job_id: str, exit_code: int | None) -> str | None:
        """Return a message that the command was killed with its job, None if that is not known."""
        if exit_code is None or exit_code <= _SIGNALLED:
            return None
        job = self._ledger.view().jobs.get(job_id)
        if job is not None and job.phase is not Phase.STOPPING:
            return None
        return f"job {job_id} {'has ended' if job is None else 'is being stopped'}, and the command with it"

    def end(self, exec_id: str) -> None:
        """End the command. A node that does not receive this ends the command once nobody asks for its output."""
        found = self._forget(exec_id)
        if found is not None:
            try:
                self._agent_of(found.launch).executions.end(exec_id)
            except CorralError as error:
                log.info("command %s in job %s could not be ended at once: %s", exec_id, found.job_id, error)

    def _launch(self, job: Job, rank: int) -> Launch:
        attempt = self._attempts.of_job(job.id)
        if attempt is None:
            raise Conflict(f"job {job.id} is being started; try again in a moment")
        if not 0 <= rank < len(attempt.launches):
            last = len(attempt.launches) - 1
            which = f"ranks 0 to {last}" if last else "rank 0 alone"
            raise Refused(f"rank: job {job.id} has {which}, not {rank}", field="rank")
        return attempt.launches[rank]

    def _admit(self, job: Job, caller: Caller, launch: Launch) -> str:
        now, exec_id = self._clock.monotonic(), secrets.token_hex(8)
        with self._lock:
            for old in [name for name, one in self._running.items() if _unclaimed(one, now)]:
                del self._running[old]
            in_job = sum(one.job_id == job.id for one in self._running.values())
            of_user = sum(one.user == caller.user for one in self._running.values())
            for count, most, where in (
                (in_job, MOST_OF_A_JOB, f"job {job.id}"),
                (of_user, MOST_OF_A_USER, "your jobs"),
            ):
                if count >= most:
                    raise Conflict(f"{count} commands run inside {where}, the limit; end one of them first")
            self._running[exec_id] = _Running(job.id, caller.user, launch)
        return exec_id

    def _note_begun(self, exec_id: str) -> None:
        """Record the start of the command: its output must be read from now on."""
        with self._lock:
            if exec_id in self._running:
                self._running[exec_id].begun_at = self._clock.monotonic()

    def _write_down(self, job: Job, fact: CommandExecuted) -> None:
        def decide(view: View) -> Decided[None]:
            newest = view.jobs.get(job.id)
            if newest is None or newest.allocation_id != job.allocation_id:
                raise Conflict("it has just ended")
            return Decided((fact,), None)

        self._ledger.commit(decide, user=fact.by).result()

    def _found(self, job_id: str, exec_id: str, caller: Caller) -> _Running:
        job = self._queries.find(job_id)
        may_change(caller, job)
        with self._lock:
            found = self._running.get(exec_id)
        if found is None or found.job_id != job.id:
            raise NotFound(f"no command {exec_id!r:.40} runs inside job {job.id}")
        return found

    def _forget(self, exec_id: str) -> _Running | None:
        with self._lock:
            return self._running.pop(exec_id, None)


class FollowedExecution:
    """The output of one command, piece by piece."""

    def __init__(self, executions: Executions, exec_id: str, job_id: str, launch: Launch) -> None:
        self._executions = executions
        self._exec_id = exec_id
        self._job_id = job_id
        self._launch = launch
        self._sequence = 0

    def read(self) -> InnerOutput:
        """Return the next piece, empty if there is no new output. Raises BackendFailed."""
        piece = self._executions.agent_of(self._launch).executions.read(self._exec_id, self._sequence)
        if piece is None:
            raise BackendFailed("the command was ended: its node no longer knows it")
        if piece.sequence == self._sequence:
            return InnerOutput(piece.sequence)
        self._sequence = piece.sequence
        stdout, stderr = base64.b64decode(piece.stdout), base64.b64decode(piece.stderr)
        message = piece.message or self._executions.end_of_job(self._job_id, piece.exit_code)
        return InnerOutput(piece.sequence, stdout, stderr, piece.exit_code, message)

    def keep(self) -> None:
        """Keep the command alive although its output is not read now."""
        self._executions.agent_of(self._launch).executions.write(self._exec_id, 0, "", end=False)

    def close(self) -> None:
        """End the command."""
        self._executions.end(self._exec_id)


def _unclaimed(one: _Running, now: float) -> bool:
    return not one.followed and now - one.begun_at > UNCLAIMED_S


def _check(command: InnerCommand) -> None:
    """Raise Refused for an invalid command."""
    if command.words and not command.words[0]:
        raise Refused("command: the name of the program is empty", field="command")
    length = sum(len(word.encode(errors="surrogateescape")) + 1 for word in command.words)
    if length > MOST_BYTES:
        raise Refused(
            f"command: it has {length} bytes, and at most {MOST_BYTES} are allowed; put it into a file", field="command"
        )
    if any("\0" in text for text in (*command.words, command.term)):
        raise Refused("command: no word of a command can hold a NUL byte", field="command")
    if len(command.term) > 64 or not command.term.isprintable() or not command.term.isascii():
        raise Refused("term: it is not a kind of terminal; give one such as xterm", field="term")
    if command.terminal is not None:
        _check_size(command.terminal)


def _check_size(size: TerminalSize) -> None:
    for field, count in (("rows", size.rows), ("columns", size.columns)):
        if not 1 <= count <= MOST_CELLS:
            raise Refused(f"{field}: {count} is out of range; it must be from 1 to {MOST_CELLS}", field=field)


def _refuse_kind(job: Job) -> None:
    if job.spec.kind is JobKind.RESERVE:
        raise Conflict(f"job {job.id} is a reservation; in its shell `corral run -- COMMAND` runs on its GPUs at once")
    if job.spec.kind is not JobKind.RUN:
        raise Conflict(f"job {job.id} is a {job.spec.kind}; commands run only inside jobs that Corral has started")


def _refuse_phase(job: Job) -> None:
    match job.phase:
        case Phase.STARTING | Phase.RUNNING:
            return
        case Phase.PENDING:
            raise Conflict(f"job {job.id} has not started; `corral why {job.id}` says what it waits for")
        case Phase.STOPPING:
            raise Conflict(f"job {job.id} is being stopped, and nothing new runs in it")
    raise Conflict(f"job {job.id} has ended ({job.phase})")
