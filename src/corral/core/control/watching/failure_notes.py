"""Explains to users why their jobs failed: a line at the end of the log of each failed attempt, and the same text for
`why`.

Later answers are computed again from the end of the log, so they survive a restart. Only the short words for lists of
jobs are kept, in memory, because a listing cannot wait for all logs. A server that starts computes them again for the
jobs that failed last.
"""

import base64
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from corral.core.diagnosis.diagnose import diagnose
from corral.core.diagnosis.failure import Diagnosis, Failure
from corral.core.diagnosis.log_end import NEXT_ATTEMPT, TAIL_BYTES, missing_bytes
from corral.core.model.audience import Audience
from corral.core.model.errors import CorralError
from corral.core.model.fact import Delta, JobChanged
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.job_patch import patched
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.core.model.runs.exit_code import exit_code_in_words
from corral.core.model.runs.launch import log_mark
from corral.core.model.view import View
from corral.core.ports.ledger import JobQuery, Ledger
from corral.core.ports.node import NodeAgent
from corral.untrusted import Unread, guarded

log = logging.getLogger(__name__)

MOST_RANKS = 8
"""The most members of a gang whose logs are read; the first that failed is mostly among them."""

MOST_WORDS = 10_000
"""The number of jobs, the last that failed, whose short words are kept."""

LOOKED_BACK_AT = 100
"""The number of jobs whose short words a starting server computes again."""

AgentOf = Callable[[Job, int], NodeAgent | None]
"""Returns the agent of the node that has the log of a job's member; None if no agent is known."""

Task = Callable[[], None]


class FailureNotes:
    """Reads the ends of logs of failed jobs, and explains the failures."""

    def __init__(
        self,
        ledger: Ledger,
        agent_of: AgentOf,
        *,
        later: Callable[[Task], object],
        on_node: Callable[[Job, Task], object],
    ) -> None:
        """`later` returns at once, and runs its argument on a thread that may wait for the disk and for nodes.

        On that thread `on_node` is called. It runs its task on a thread that only the job's node may delay.
        """
        self._ledger = ledger
        self._agent_of = agent_of
        self._later = later
        self._on_node = on_node
        self._words: dict[tuple[str, int], str] = {}

    def on_change(self, view: View, deltas: Sequence[Delta]) -> None:
        """Add a note on each new failure to the log of its job. A listener for `Ledger.subscribe`."""
        for delta in deltas:
            if isinstance(delta, JobChanged) and delta.changes.get("phase") is Phase.FAILED:
                self._later(partial(self._hand_over, delta))

    def _hand_over(self, failure: JobChanged) -> None:
        job = self._ledger.find_job(failure.job_id)
        if job is not None and job.spec.kind is JobKind.RUN:
            # A job that is tried again is PENDING by now.
            failed = patched(job, failure.changes)
            self._on_node(failed, partial(self._note, failed))

    def look_back(self) -> None:
        """Compute the short words for the jobs that failed last before this server started. Returns at once."""
        self._later(self._look_back)

    def _look_back(self) -> None:
        for job in self._ledger.jobs(JobQuery(phases=(Phase.FAILED,), limit=LOOKED_BACK_AT)):
            self._on_node(job, partial(self._learn, job))

    def _learn(self, job: Job) -> None:
        self.of(job)

    def word(self, job: Job) -> str | None:
        """Return in few words why a job failed; None if unknown or not computed yet. Returns at once."""
        return self._words.get((job.id, job.attempts)) if job.phase is Phase.FAILED else None

    def of(self, job: Job, audience: Audience = Audience.COMMAND_LINE) -> Diagnosis | None:
        """Return why a job failed with a remedy for this reader; None if unknown, or if its nodes do not answer now.

        It takes as long as the nodes need to answer.
        """
        if job.phase is not Phase.FAILED or job.spec.kind is not JobKind.RUN:
            return None
        try:
            return self._of(job, audience)
        except CorralError as error:
            log.warning("the end of the log of job %s cannot be read: %s", job.id, error)
            return None

    def missing_bytes(self, job: Job) -> int | None:
        """Return the number of bytes missing in its members' logs; None if the nodes do not answer now."""
        ranks = range(min(job.spec.request.gang_size, MOST_RANKS))
        try:
            agents = [(rank, self._agent_of(job, rank)) for rank in ranks]
            ends = [end_of_log(agent, job, rank) for rank, agent in agents if agent is not None]
        except CorralError as error:
            log.warning("the end of the log of job %s cannot be read: %s", job.id, error)
            return None
        found = guarded(_log_of(job), lambda: sum(map(missing_bytes, ends)))
        return None if isinstance(found, Unread) else found

    def _of(self, job: Job, audience: Audience = Audience.COMMAND_LINE) -> Diagnosis | None:
        found = self._found(job, audience)
        if found is not None and found.word:
            self._words[job.id, job.attempts] = found.word
            for oldest in list(self._words)[:-MOST_WORDS]:
                self._words.pop(oldest, None)
        return found

    def _found(self, job: Job, audience: Audience) -> Diagnosis | None:
        """Return the first diagnosis that is not a consequence of another member's failure, else the first
        diagnosis.
        """
        view, allocation = self._ledger.view(), self._ledger.last_allocation(job)
        members = min(job.spec.request.gang_size, MOST_RANKS)
        consequence = None
        reader = Audience.POD if job.spec.pods else audience
        for rank in range(members):
            agent = self._agent_of(job, rank)
            if agent is None:
                continue
            failure = replace(failure_of(view, job, allocation, rank), audience=reader)
            found = _diagnosed(job, failure, end_of_log(agent, job, rank))
            if found is not None and members > 1:
                found = replace(found, what=f"rank {rank}: {found.what}")
            if found is not None and not found.consequence:
                return found
            consequence = consequence or found
        return consequence

    def _note(self, job: Job) -> None:
        found = self._of(job)
        if found is None and not job.spec.retries:
            return
        why = "" if found is None else f": {found.line}"
        code = "" if job.exit_code is None else f" with {exit_code_in_words(job.exit_code, job.signal)}"
        agent = self._agent_of(job, 0)
        if agent is not None:
            agent.logs.note(job.id, 0, f"{NEXT_ATTEMPT} {job.attempts} failed{code}{why}")


def _diagnosed(job: Job, failure: Failure, log_end: bytes) -> Diagnosis | None:
    """Return the diagnosis from a member's log. An unreadable log counts only if no other member's log has a
    diagnosis.
    """
    found = guarded(_log_of(job), partial(diagnose, failure, log_end))
    if isinstance(found, Unread):
        return Diagnosis(
            f"the end of its log {found}", f"look into it yourself: corral logs {job.id}", consequence=True
        )
    return found


def _log_of(job: Job) -> str:
    return f"the log of job {job.id}"


def failure_of(view: View, job: Job, allocation: Allocation | None, rank: int) -> Failure:
    """Return how a member of a job ended, and its resources on its node, as far as they are still known."""
    ended = Failure(job.exit_code, job.signal, job.reason, job.spec.workdir)
    in_container = job.spec.container is not None or bool(job.spec.pods)
    failure = replace(ended, largest_device_mib=_largest_device_mib(view), in_container=in_container)
    if allocation is None or rank >= len(allocation.placement.members):
        return failure
    member = allocation.placement.members[rank]
    node = view.nodes.get(member.node)
    failure = replace(
        failure,
        devices=len(member.grants),
        host_memory_mib=member.host_memory_mib,
        cuda=None if node is None else node.cuda_version,
    )
    if not member.grants:
        return failure
    grant = member.grants[0]
    failure = replace(failure, share_milli=grant.share_milli, memory_mib=grant.memory_mib)
    device = next((one for one in (node.devices if node else ()) if one.uuid == grant.uuid), None)
    if device is None:
        return failure
    return replace(failure, model=device.model, compute=device.compute_capability, device_memory_mib=device.memory_mib)


def _largest_device_mib(view: View) -> int | None:
    """Return the memory of the largest device; None if the memory of any device is unknown."""
    sizes_mib = [device.memory_mib for node in view.nodes.values() for device in node.devices]
    known_mib = [size for size in sizes_mib if size is not None]
    return max(known_mib) if known_mib and len(known_mib) == len(sizes_mib) else None


def end_of_log(agent: NodeAgent, job: Job, rank: int) -> bytes:
    """Return the last bytes of a member's log, or b"". Raises BackendFailed."""
    mark = log_mark(job)
    size = agent.logs.read(job.id, rank, 0, 0, mark).size_bytes
    if not size:
        return b""
    # With one byte more than needed, the reader sees whether the piece begins within a line.
    chunk = agent.logs.read(job.id, rank, max(0, size - TAIL_BYTES - 1), TAIL_BYTES + 1, mark)
    return base64.b64decode(chunk.data)
