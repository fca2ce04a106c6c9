"""Logs of jobs, read from the node where they are."""

import base64
from collections.abc import Callable
from functools import partial

from corral.clock import Clock
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import Conflict, NodeUnreachable
from corral.core.model.jobs.job import Job
from corral.core.model.runs.launch import log_mark
from corral.core.ports.ledger import Ledger
from corral.core.ports.node import NodeAgent

PIECE_BYTES = 256 * 1024
"""The most bytes of a log that are read at once."""

UNMARKED_S = 15.0
"""A log that was written for no longer than this may have no time marks. All of its text then counts as new."""


class MemberLog:
    """The log of one member. Its calls may take as long as a node needs to answer."""

    def __init__(
        self,
        job: Job,
        rank: int,
        nodes: Nodes,
        clock: Clock,
        *,
        find: Callable[[], tuple[Job, str | None]],
        why_not_asked: Callable[[str], str | None],
    ) -> None:
        """`find` returns the job's present state and the node with its log. `why_not_asked` returns None for a node
        that answers.
        """
        self._job_id = job.id
        self._mark = log_mark(job)
        self._rank = rank
        self._nodes = nodes
        self._find = find
        self._why_not_asked = why_not_asked
        self._clock = clock

    def has_ended(self) -> bool:
        """Return whether the job has ended. After that its log no longer grows."""
        return self._find()[0].phase.terminal

    def read(self, offset: int) -> bytes:
        """Return the next piece from a byte on; b"" if there is none (yet).

        Raises BackendFailed, at once for a silent node.
        """
        agent = self._agent()
        chunk = None if agent is None else agent.logs.read(self._job_id, self._rank, offset, PIECE_BYTES, self._mark)
        return b"" if chunk is None else base64.b64decode(chunk.data)

    def size_bytes(self) -> int:
        """Return the present length of the log in bytes; 0 if there is no log (yet). Raises as `read` does."""
        agent = self._agent()
        return 0 if agent is None else agent.logs.read(self._job_id, self._rank, 0, 0, self._mark).size_bytes or 0

    def written_since(self, wall: float) -> int:
        """Return the byte from which on the log was written since `wall` (Unix seconds), or an earlier byte.

        Raises Conflict if the times of the text are unknown, and the errors of `read`.
        """
        agent, job = self._agent(), self._find()[0]
        now, at = self._clock.now(), self._clock.taken(wall)
        if agent is None:
            return 0
        start = agent.logs.written_since(self._job_id, self._rank, max(0.0, now - at), self._mark)
        if start is not None:
            return start
        # A log gets its first mark some seconds after its first line.
        size, ended_at = self.size_bytes(), job.ended_at if job.phase.terminal and job.ended_at is not None else now
        if at > ended_at:
            return size
        if not size or job.started_at is None or at <= job.started_at or ended_at - job.started_at <= UNMARKED_S:
            return 0
        raise Conflict(
            f"the log of job {self._job_id} has no times of its lines: the job began under an earlier version of "
            "Corral, or the times are lost; --tail shows its last lines"
        )

    def _agent(self) -> NodeAgent | None:
        """Return the agent of the node that has the log; None if no node has it yet. Raises NodeUnreachable if the node
        is silent.
        """
        _, node = self._find()
        if node is None:
            return None
        silent = self._why_not_asked(node)
        if silent is not None:
            raise NodeUnreachable(
                f"the log of job {self._job_id}, rank {self._rank}, is on a node that gets no requests now: {silent}"
            )
        return self._nodes.agent(node)


class MemberLogs:
    """Finds the node that has a job's log: where the job runs, or ran last."""

    def __init__(self, ledger: Ledger, nodes: Nodes, clock: Clock) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._clock = clock

    def of(self, job: Job) -> tuple[MemberLog, ...]:
        """Return the logs of the job's members, in order of rank."""
        members = range(job.spec.request.gang_size)
        return tuple(
            MemberLog(
                job,
                rank,
                self._nodes,
                self._clock,
                find=partial(self._newest, job, rank),
                why_not_asked=self._why_not_asked,
            )
            for rank in members
        )

    def agent_of(self, job: Job, rank: int) -> NodeAgent | None:
        """Return the agent of the node with a member's log; None if the cluster has no such node (any more) or it does
        not answer.
        """
        node = self._node_of(job, rank)
        return None if node is None or self._why_not_asked(node) is not None else self._nodes.get(node)

    def on_node(self, job: Job, task: Callable[[], None]) -> None:
        """Run a task on a job's logs, on the thread of their node. If several nodes have logs, run it here, so that no
        node delays another.
        """
        nodes = set(self._nodes_of(job))
        if len(nodes) == 1:
            self._nodes.worker(nodes.pop()).put(task)
        else:
            task()

    def _why_not_asked(self, node: str) -> str | None:
        # The agent of a server's only node has logs to give even while its devices hang.
        return None if len(self._nodes) == 1 else self._ledger.view().unanswering(node)

    def _newest(self, job: Job, rank: int) -> tuple[Job, str | None]:
        newest = self._ledger.view().jobs.get(job.id) or self._ledger.find_job(job.id) or job
        return newest, self._node_of(newest, rank)

    def _node_of(self, job: Job, rank: int) -> str | None:
        nodes = self._nodes_of(job)
        return nodes[rank] if nodes else None

    def _nodes_of(self, job: Job) -> tuple[str, ...]:
        """Return the node that has each member's log, by rank; () if no member was launched or the nodes are no longer
        known.
        """
        if not job.launches and not job.phase.terminal:
            # The job has written nothing on a node yet. An existing log is of another job, which no ledger knows any
            # more.
            return ()
        if len(self._nodes) == 1:
            return (*self._nodes,) * job.spec.request.gang_size
        allocation = self._ledger.view().allocations.get(job.allocation_id or "") or self._ledger.last_allocation(job)
        return () if allocation is None else tuple(member.node for member in allocation.placement.members)
