"""Lines of Corral's own in the logs of jobs, for their users."""

import logging
from functools import partial

from corral.control.attempts import Attempts
from corral.control.node_registry import Nodes
from corral.model.errors import CorralError

log = logging.getLogger(__name__)


class JobNotes:
    """Writes into the log of rank 0, on its node and on that node's own thread."""

    def __init__(self, attempts: Attempts, nodes: Nodes) -> None:
        self._attempts = attempts
        self._nodes = nodes

    def tell(self, job_id: str, line: str) -> None:
        """Have a line written into the log of a job that holds something; returns at once."""
        attempt = self._attempts.of_job(job_id)
        if attempt is not None:
            node = attempt.launches[0].node
            self._nodes.worker(node).put(partial(self._write, node, job_id, line))

    def _write(self, node: str, job_id: str, line: str) -> None:
        try:
            self._nodes.agent(node).note(job_id, line)
        except CorralError as error:
            log.warning("job %s could not be told in its log: %s", job_id, error)
