"""Ends jobs whose device lost the service through which they shared it (an MPS daemon)."""

import logging

from corral.core.control.launching.attempts import Attempts
from corral.core.control.watching.memory_guard import Stopper, Tell
from corral.core.model.fact import ServerPart
from corral.core.model.jobs.phase import Phase
from corral.core.ports.node import ServiceLost

log = logging.getLogger(__name__)


class LostServices:
    """Ends jobs of a lost service. The node starts the service again; work through the old one has failed, and its jobs
    are LOST.
    """

    def __init__(self, attempts: Attempts, tell: Tell, stopper: Stopper) -> None:
        self._attempts = attempts
        self._tell = tell
        self._stopper = stopper

    def end_tenants(self, node: str, lost: ServiceLost) -> None:
        """Tell the jobs that used it on the node, and stop them. Waits for the ledger."""
        log.error("%s", lost.reason)
        for launch_id in lost.launches:
            found = self._attempts.of_launch(node, launch_id)
            if found is not None:
                job_id = found[0].job_id
                self._tell(job_id, lost.reason)
                self._stopper.end(job_id, Phase.LOST, lost.reason, ServerPart.MPS_WATCH)
