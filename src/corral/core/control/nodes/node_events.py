"""The server's reactions to events on a node."""

from functools import partial

from corral.core.control.launching.dispatcher import Dispatcher
from corral.core.control.launching.node_recovery import Recovery
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.watching.lost_services import LostServices
from corral.core.ports.node import ServiceLost


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
