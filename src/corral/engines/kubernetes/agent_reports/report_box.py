"""The latest report of each node's agent. Does no I/O."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from corral.core.model.errors import Refused
from corral.core.model.printable import printable
from corral.engines.kubernetes.agent.agent_report import AgentReport
from corral.engines.kubernetes.inventory.devices import is_counted
from corral.engines.kubernetes.inventory.occupants import PodName


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A report that was taken: its sender is known, and its values are within bounds.

    Attributes:
        node: the node on which the sender runs, whatever name the report has.
        pod: the sender's pod.
        report: what it says. Its moments are by the server's clock.
        heard_at: when it came, Unix seconds.
        silent_after_s: the node is silent if no further report comes for this long.
        process_pods: the pods of processes in the samples, by pid, where they are known.
    """

    node: str
    pod: PodName
    report: AgentReport
    heard_at: float
    silent_after_s: float
    process_pods: Mapping[int, PodName] = field(default_factory=dict)


Subscriber = Callable[[NodeReport], None]


class ReportBox:
    """The latest reports. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._latest: dict[str, NodeReport] = {}
        self._owners: dict[str, str] = {}
        """The node of each device, by UUID."""
        self._subscribers: list[Subscriber] = []

    def put(self, taken: NodeReport) -> None:
        """Keep this report in place of the node's last one, and tell the subscribers.

        Raises Refused if another node has one of its devices, or one is named like a device that is only counted.
        """
        uuids = {device.uuid for device in taken.report.node.devices}
        if counted := sorted(filter(is_counted, uuids)):
            raise Refused(f"node {taken.node} reports GPU {printable(counted[0])}, which is no UUID of a device")
        with self._lock:
            self._refuse_devices_of_others(taken.node, uuids)
            self._let_go(taken.node, kept=uuids)
            self._owners.update(dict.fromkeys(uuids, taken.node))
            self._latest[taken.node] = taken
            for subscriber in self._subscribers:
                subscriber(taken)

    def latest(self, node: str) -> NodeReport | None:
        """Return the last report of a node; None if it has sent none since the server's start."""
        with self._lock:
            return self._latest.get(node)

    def drop(self, node: str) -> None:
        """Forget a node that the cluster has no longer. Its devices may now be on another one."""
        with self._lock:
            self._let_go(node, kept=set())
            self._latest.pop(node, None)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call this function with every report from now on, in the thread that takes the report.

        The box is locked meanwhile: the function must be quick and must not raise.
        """
        with self._lock:
            self._subscribers.append(subscriber)

    def _refuse_devices_of_others(self, node: str, uuids: set[str]) -> None:
        for uuid in sorted(uuids):
            other = self._owners.get(uuid, node)
            if other != node:
                raise Refused(
                    f"node {node} reports GPU {printable(uuid)}, and node {other} has it: one of the two agents makes "
                    "it up, or both are on one machine; remove one of the two agents"
                )

    def _let_go(self, node: str, *, kept: set[str]) -> None:
        for uuid in self._had(node):
            if uuid not in kept and self._owners.get(uuid) == node:
                del self._owners[uuid]

    def _had(self, node: str) -> Iterator[str]:
        before = self._latest.get(node)
        return iter(()) if before is None else (device.uuid for device in before.report.node.devices)
