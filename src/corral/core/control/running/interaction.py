"""Access to a running job from outside: signals, input, the size of its terminal."""

import base64
import logging

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.permissions import may_change
from corral.core.control.launching.attempts import Attempt, Attempts
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.querying.queries import Queries
from corral.core.lifecycle import input as input_steps
from corral.core.model.answers.job_changes import InputProgress
from corral.core.model.errors import BackendFailed, Conflict, CorralError, NodeUnreachable, Refused
from corral.core.model.jobs.input import MOST_CELLS, InputState, TerminalSize
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.node import InputTaken, NodeAgent

log = logging.getLogger(__name__)

SIGNALS = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
"""The signals that a job may be sent. Corral itself ends jobs (cancel), and it stops and continues none."""

LARGEST_OFFSET = 2**63 - 1


class Interaction:
    """Passes signals, input and terminal sizes to a job's node. Calls may take as long as a node's answer."""

    def __init__(self, ledger: Ledger, queries: Queries, nodes: Nodes, attempts: Attempts, clock: Clock) -> None:
        self._ledger = ledger
        self._queries = queries
        self._nodes = nodes
        self._attempts = attempts
        self._clock = clock
        self._heard_at: dict[str, float] = {}

    def signal(self, job_id: str, name: str, caller: Caller) -> None:
        """Send a signal to every process of a running job, on all nodes. Raises Conflict if none runs yet."""
        job = self._changeable(job_id, caller)
        if name not in SIGNALS:
            raise Refused(f"signal: {name!r:.40} is not sent to jobs; use one of {', '.join(SIGNALS)}", field="signal")
        if job.spec.kind is not JobKind.RUN:
            raise Conflict(f"job {job.id} is a {job.spec.kind}; signals go only to jobs that Corral has started")
        attempt = self._attempts.of_job(job.id)
        if attempt is None or job.phase not in (Phase.STARTING, Phase.RUNNING):
            raise Conflict(f"job {job.id} is {job.phase}; only a job that runs can be sent a signal")
        self._signal_all(job, attempt, name)
        log.info("job %s: sent SIG%s by %s", job.id, name, caller.user)

    def write_input(self, job_id: str, offset: int, data: bytes, end: bool, caller: Caller) -> InputProgress:
        """Pass as much of this input to the job's program as it accepts now. With `end` no more input follows.

        Raises Conflict for a job without input, and NodeUnreachable or BackendFailed if the node cannot be asked now.
        """
        job = self._changeable(job_id, caller)
        if not 0 <= offset <= LARGEST_OFFSET:
            raise Refused(f"offset: {offset} is not a position; count bytes from 0", field="offset")
        if not job.spec.takes_input:
            raise Conflict(f"job {job.id} takes no input; start it with `corral run` to send input")
        self._heard_at[job.id] = self._clock.monotonic()
        attempt = self._attempts.of_job(job.id)
        if attempt is None:
            return InputProgress(offset, InputState.CLOSED if job.phase.terminal else InputState.WAITING)
        first = attempt.launches[0]
        if not job.input_taken and (data or end):
            # The ledger records first that the job takes input: input that was taken is never given to another run.
            ready = self._give(first, 0, b"", False)
            if ready is None or not ready.open:
                return _progress(offset, ready)
            self._note_taken(job)
        return _progress(offset, self._give(first, offset, data, end))

    def waits(self, job_id: str) -> bool:
        """Return whether the job waits for its start; asks no node."""
        job = self._ledger.view().jobs.get(job_id)
        return job is not None and job.phase in (Phase.PENDING, Phase.STARTING)

    def resize_terminal(self, job_id: str, size: TerminalSize, caller: Caller) -> None:
        """Set the size of the job's terminal. Does nothing while the job does not run."""
        job = self._changeable(job_id, caller)
        for field, count in (("rows", size.rows), ("columns", size.columns)):
            if not 1 <= count <= MOST_CELLS:
                raise Refused(f"{field}: {count} is out of range; it must be from 1 to {MOST_CELLS}", field=field)
        if job.spec.terminal is None:
            raise Conflict(f"job {job.id} has no terminal; start it with `corral run --pty`")
        attempt = self._attempts.of_job(job.id)
        if attempt is not None:
            first = attempt.launches[0]
            if (inputs := self.agent_of(first).inputs) is not None:
                inputs.resize(first.id, size)

    def heard_at(self, job_id: str) -> float | None:
        """Return when a client last sent input or said that there is none yet, in monotonic seconds."""
        return self._heard_at.get(job_id)

    def needs_nobody(self, job: Job) -> bool:
        """Return whether no client is needed any more: the job has all its input, or reads no more.

        Raises BackendFailed if the node cannot be asked now.
        """
        attempt = self._attempts.of_job(job.id)
        taken = None if attempt is None else self._give(attempt.launches[0], 0, b"", False)
        return taken is not None and not taken.open

    def forget(self, job_id: str) -> None:
        """Forget when the job last received input. Call this once the job needs no more input."""
        self._heard_at.pop(job_id, None)

    def _changeable(self, job_id: str, caller: Caller) -> Job:
        job = self._queries.find(job_id)
        may_change(caller, job)
        return job

    def _signal_all(self, job: Job, attempt: Attempt, name: str) -> None:
        reached, failure = 0, None
        for launch in attempt.launches:
            try:
                launches = self.agent_of(launch).launches
                # The ledger may not know yet that it runs.
                (report,) = launches.reports((launch.id,)).reports
                if report.phase is LaunchPhase.RUNNING:
                    launches.signal(launch.id, name)
                    reached += 1
            except CorralError as error:
                failure = error
        if failure is not None:
            raise failure
        if not reached:
            raise Conflict(f"job {job.id} is being started and cannot be sent a signal yet")

    def agent_of(self, launch: Launch) -> NodeAgent:
        """Return the agent of the launch's node. Raises NodeUnreachable, at once for a silent node."""
        silent = self._ledger.view().unanswering(launch.node) if len(self._nodes) > 1 else None
        if silent is not None:
            raise NodeUnreachable(f"job {launch.job.id} is on a node that gets no requests now: {silent}")
        return self._nodes.agent(launch.node)

    def _give(self, launch: Launch, offset: int, data: bytes, end: bool) -> InputTaken | None:
        inputs = self.agent_of(launch).inputs
        portion = base64.b64encode(data).decode()
        return None if inputs is None else inputs.write(launch.id, offset, portion, end=end)

    def _note_taken(self, job: Job) -> None:
        def decide(view: View) -> Decided[None]:
            newest = view.jobs.get(job.id)
            if newest is None:
                raise BackendFailed(f"job {job.id} has just ended")
            return Decided(tuple(input_steps.take(newest, by=newest.spec.user, at=self._clock.now())), None)

        self._ledger.commit(decide, user=job.spec.user).result()


def _progress(offset: int, taken: InputTaken | None) -> InputProgress:
    if taken is None:
        return InputProgress(offset, InputState.WAITING)
    return InputProgress(taken.offset, InputState.OPEN if taken.open else InputState.CLOSED)
