"""The server's reactions to events on a node."""

import logging
from functools import partial

from corral.core.control.launching.attempts import Attempts
from corral.core.control.launching.dispatcher import Dispatcher
from corral.core.control.nodes.gone_and_returned_nodes import Recovery
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.watching.memory_guard import Stopper, Tell
from corral.core.model.fact import ServerPart
from corral.core.model.jobs.phase import Phase
from corral.core.ports.node import ServiceLost

log = logging.getLogger(__name__)


class LostServices:
    """Ends jobs whose device lost its sharing service (an MPS daemon).

    The node starts the service again. Work that used the old service has failed, so its jobs end as LOST.
    """

    def __init__(self, attempts: Attempts, tell: Tell, stopper: Stopper) -> None:
        self._attempts = attempts
        self._tell = tell
        self._stopper = stopper

    def end_tenants(self, node: str, lost: ServiceLost) -> None:
        """Write the reason into the logs of the jobs that used the lost service, and stop these jobs. Waits for the
        ledger.
        """
        held = [self._attempts.of_launch(node, launch_id) for launch_id in lost.launches]
        if any(held):
            log.error("%s", lost.reason)
        for found in held:
            if found is not None:
                job_id = found[0].job_id
                self._tell(job_id, lost.reason)
                self._stopper.end(job_id, Phase.LOST, lost.reason, ServerPart.MPS_WATCH)


class NodeEvents:
    """Implements `corral.core.ports.telemetry.NodeListener`: each call passes the work to the node's own thread."""

    def __init__(self, nodes: Nodes, dispatcher: Dispatcher, recovery: Recovery, lost_services: LostServices) -> None:
        self._nodes = nodes
        self._dispatcher = dispatcher
        self._recovery = recovery
        self._lost_services = lost_services

    def on_launches(self, node: str, launch_ids: tuple[str, ...]) -> None:
        self._dispatcher.look(node, launch_ids)

    def on_services_lost(self, node: str, lost: tuple[ServiceLost, ...]) -> None:
        for one in lost:
            self._nodes.worker(node).put(partial(self._lost_services.end_tenants, node, one))

    def on_return(self, node: str, visit: int) -> None:
        self._recovery.node_returned(node, visit)

    def on_gone(self, node: str) -> None:
        self._recovery.node_gone(node)

    def on_left(self, node: str) -> None:
        self._recovery.node_left(node)
