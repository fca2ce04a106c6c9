"""The directories that jobs leave for their users, read from the nodes that keep them."""

import base64
from collections.abc import Callable

from corral.core.access.caller import Caller
from corral.core.access.permissions import can_read_log
from corral.core.model.answers.files import LeftFiles
from corral.core.model.errors import BackendFailed, Conflict, Forbidden, Refused
from corral.core.model.files.left_state import LeftState
from corral.core.model.jobs.job import Job
from corral.core.model.runs.launch import log_mark
from corral.core.ports.node import GatherState, NodeAgent, Trees
from corral.trees.text import tree_of

_STATES = {
    GatherState.UNKNOWN: LeftState.GONE,
    GatherState.WAITING: LeftState.WAITING,
    GatherState.READY: LeftState.READY,
    GatherState.NOTHING: LeftState.NOTHING,
    GatherState.FAILED: LeftState.FAILED,
}

AgentOf = Callable[[Job, int], NodeAgent | None]


class FilesLeft:
    """Finds what jobs have left. Its calls take as long as a node needs to answer."""

    def __init__(self, find: Callable[[str], Job], agent_of: AgentOf) -> None:
        """`agent_of` returns the agent of the node where a member ran last; None if it does not answer."""
        self._find = find
        self._agent_of = agent_of

    def of(self, job_id: str, rank: int, caller: Caller) -> LeftFiles:
        """Return what a member of the job has left. Raises NotFound, Forbidden, Refused, BackendFailed."""
        job, directory = self._job(job_id, rank, caller)
        if not job.phase.terminal:
            return LeftFiles(LeftState.WAITING, directory)
        if not job.attempts:
            return LeftFiles(LeftState.NOTHING, directory)
        trees, mark = self._trees(job, rank), log_mark(job)
        found = trees.gathered(job.id, mark)
        state = _STATES[found.state]
        tree = None
        if state is LeftState.READY and found.tree is not None:
            contents = trees.read(job.id, mark, (found.tree,))
            if not contents:
                raise BackendFailed(f"the node of job {job.id} does not give what it says it has kept; try again later")
            tree = tree_of(base64.b64decode(contents[0]))
        return LeftFiles(state, directory, tree, found.left_out, found.reason, found.now)

    def read(self, job_id: str, rank: int, digests: tuple[str, ...], caller: Caller) -> tuple[str, ...]:
        """Return the first of these contents, in base64, as many as one answer takes. Raises as `of`."""
        job, _ = self._job(job_id, rank, caller)
        if not digests:
            return ()
        return self._trees(job, rank).read(job.id, log_mark(job), digests)

    def _job(self, job_id: str, rank: int, caller: Caller) -> tuple[Job, str]:
        """Return the job, and the directory that it leaves."""
        job = self._find(job_id)
        if not can_read_log(caller, job):
            raise Forbidden(f"only {job.spec.user} or an administrator may fetch the files of job {job.id}")
        if job.spec.download is None:
            raise Conflict(f"job {job.id} leaves no files: it was submitted without --download")
        if not 0 <= rank < job.spec.request.gang_size:
            raise Refused(f"rank: job {job.id} has the ranks 0 to {job.spec.request.gang_size - 1}", field="rank")
        return job, job.spec.download

    def _trees(self, job: Job, rank: int) -> Trees:
        agent = self._agent_of(job, rank)
        if agent is None or agent.trees is None:
            raise BackendFailed(f"the node that keeps the files of job {job.id} does not answer now; try again later")
        return agent.trees
