"""A server's real ledger, controller and dispatcher over nodes with simulated work."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.control.core import ControlCore
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.submitting.device_request import RequestRules
from corral.core.ledger.store import open_ledger
from corral.core.model.answers.site import ServerInfo
from corral.core.model.devices.device import DeviceSample
from corral.core.model.fact import Observation
from corral.core.model.home import Home
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from corral.core.ports.images import ImageRegistry
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.telemetry import Contact, NodeContact, NodeListener
from corral.host.node.mock.simulated_node import SimulatedNode

PATIENCE_S = 120.0


class QuietHub:
    """Implements `corral.core.ports.telemetry.NodeTelemetry` for nodes whose devices only Corral uses."""

    def __init__(self, nodes: Mapping[str, SimulatedNode]) -> None:
        self._nodes = nodes
        self._visits: dict[str, int] = {}

    def start(self, listener: NodeListener) -> None:
        """Report all nodes to the listener at once."""
        for name, node in self._nodes.items():
            node.runtime.on_event = partial(self._changed, listener, name)
            self.visit(name, listener)

    def visit(self, name: str, listener: NodeListener) -> None:
        """Report that the node has joined or returned."""
        self._visits[name] = self._visits.get(name, 0) + 1
        listener.on_return(name, self._visits[name])

    @staticmethod
    def _changed(listener: NodeListener, name: str, launch_id: str) -> None:
        listener.on_launches(name, (launch_id,))

    def latest(self) -> dict[str, DeviceSample]:
        """Return no samples: none are needed."""
        return {}

    def judged(self, samples: Sequence[DeviceSample], before: View) -> tuple[Observation, ...]:
        """Return no changes: the conditions of devices never change."""
        return ()

    def readmit(self, node: str, visit: int) -> None:
        """Do nothing: work may always start on the nodes."""

    def contacts(self) -> tuple[NodeContact, ...]:
        """Return that all nodes are ready."""
        return tuple(NodeContact(name, Contact.READY, None) for name in sorted(self._nodes))


class LiveServer:
    """One server over a ledger file and nodes that outlive it. `observations` describe the nodes."""

    def __init__(
        self,
        home: Home,
        nodes: Mapping[str, SimulatedNode],
        observations: Sequence[Observation],
        *,
        attend: Callable[[ControlCore], None] = lambda core: None,
        registry: ImageRegistry | None = None,
    ) -> None:
        """`attend` is called before the nodes come. `registry` reads the images of containers."""
        self.ledger: Ledger = open_ledger(home.ledger_url)
        self.ledger.observe(observations)
        self.ledger.commit(lambda _: Decided((), None)).result()
        self.hub = QuietHub(nodes)
        self.core = ControlCore(
            self.ledger,
            Nodes(nodes),
            self.hub,
            SystemClock(),
            settings=Settings(retry_backoff_s=0.001, retry_backoff_max_s=0.002),
            rules=RequestRules(),
            about=ServerInfo,
            registry=registry,
        )
        self.service = self.core.service
        attend(self.core)
        self.hub.start(self.core.listener)
        self.core.start()
        self.settle()

    def settle(self) -> None:
        """Wait until nothing changes: the last plan is of the current view and starts nothing, and no work is in
        progress.
        """
        deadline = time.monotonic() + PATIENCE_S
        while self._moves():
            assert time.monotonic() < deadline, "the server does not come to rest"
            time.sleep(0.001)

    def _moves(self) -> bool:
        view, plan = self.ledger.view(), self.core.controller.plan
        on_the_way = (Phase.STARTING, Phase.STOPPING)
        return (
            plan.version != view.version
            or bool(plan.starts)
            or any(job.phase in on_the_way for job in view.jobs.values())
        )

    def close(self) -> None:
        """Stop; jobs go on."""
        self.core.close()
        self.ledger.close()
