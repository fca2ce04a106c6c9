"""Writes Corral's own lines into the logs of jobs: into the log of each member, on its node."""

import logging
from collections.abc import Sequence
from functools import partial

from corral.core.control.launching.attempts import Attempts
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import CorralError
from corral.core.model.runs.launch import Launch

log = logging.getLogger(__name__)


class JobNotes:
    """Writes on each node's own thread, so that no caller waits for a hanging node."""

    def __init__(self, attempts: Attempts, nodes: Nodes) -> None:
        self._attempts = attempts
        self._nodes = nodes

    def tell(self, job_id: str, line: str) -> None:
        """Have a line written into the logs of a job with an allocation. Returns at once."""
        attempt = self._attempts.of_job(job_id)
        if attempt is not None:
            tell_members(self._nodes, attempt.launches, line)


def tell_members(nodes: Nodes, launches: Sequence[Launch], line: str) -> None:
    """Have a line written into the logs of these members, even if they have ended. Returns at once."""
    for launch in launches:
        nodes.worker(launch.node).put(partial(_write, nodes, launch, line), launch.job.spec.user)


def _write(nodes: Nodes, launch: Launch, line: str) -> None:
    try:
        nodes.agent(launch.node).logs.note(launch.job.id, launch.rank, line)
    except CorralError as error:
        log.warning("the log of job %s could not get a note: %s", launch.job.id, error)
