"""Nodes on which files are inspected, and a real ledger that knows them."""

from pathlib import Path
from types import TracebackType

from corral.clock import Clock, ManualClock
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.submitting.candidate_nodes import CandidateNodes, EligibleNodes
from corral.core.control.submitting.device_request import RequestRules
from corral.core.control.submitting.file_findings import FileFindingsCache
from corral.core.control.submitting.image_findings import ImageFindings
from corral.core.control.submitting.node_files import NodeFiles
from corral.core.ledger.store import open_ledger
from corral.core.lifecycle import starting
from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.fact import ConditionObserved, JobSubmitted, NodeObserved, Observation
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.ledger import Decided
from corral.core.ports.node import FileFinding
from corral.host.node.mock.simulated_node import SimulatedHost, SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.wire import to_plain


class CountingFiles(SimulatedHost):
    def __init__(self, node: "CountingNode") -> None:
        super().__init__(node)
        self._counting = node

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        self._counting.asked += [(query, who) for query in queries]
        found = super().inspect(queries, who)
        return () if self._counting.finds_nothing else tuple(self._altered(one) for one in found)

    def _altered(self, one: FileFinding) -> FileFinding:
        if one.query.directory not in self._counting.missing:
            return one
        return FileFinding(one.query, {**to_plain(one.facts), "enterable": False})


class CountingNode(SimulatedNode):
    """Notes every query and as whom.

    Attributes:
        missing: directories that are not on this node.
        finds_nothing: no file answers in time.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(SimulatedRuntime(clock), clock, answer_within_s=60.0)
        self.asked: list[tuple[FileQuery, Credentials | None]] = []
        self.missing: set[str] = set()
        self.finds_nothing = False
        self.parts["host"] = CountingFiles(self)


class InspectedCluster:
    """Nodes of one GPU each, labelled `zone=NAME`; a context manager."""

    def __init__(self, root: Path, clock: ManualClock, *names: str) -> None:
        self.nodes = {name: CountingNode(clock) for name in names}
        self.ledger = open_ledger(f"sqlite:///{root / 'ledger.db'}")
        self.eligible = EligibleNodes()
        for name in names:
            device = Device(f"{name}-0", 0, "GPU", 81_920)
            node = Node(name, (device,), 64_000, 512 * 1024, labels=(("zone", name),))
            self.observe(NodeObserved(node), ConditionObserved(DeviceCondition(device.uuid, memory_free_mib=81_920)))
        registry = Nodes(self.nodes)
        candidates = CandidateNodes(self.ledger, registry, RequestRules(), self.eligible)
        self.cache = FileFindingsCache(
            NodeFiles(registry), candidates, clock, know=lambda user: None, images=ImageFindings(registry, None, clock)
        )

    def __enter__(self) -> "InspectedCluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.answer_again()
        self.ledger.close()

    def observe(self, *observations: Observation) -> None:
        """These are part of the view from now on."""
        self.ledger.observe(observations)
        self.ledger.commit(lambda _: Decided((), None)).result()

    def allocate(self, name: str) -> None:
        """A job gets the GPU of the node."""
        job = Job("1", 1, JobSpec("bob", ("true",)), 0.0)
        placement = Placement((Member(name, (Grant(f"{name}-0", 1000),)),))
        step = starting.start(job, placement, by="test", at=1.0)
        self.ledger.commit(lambda _: Decided((JobSubmitted(job, at=1.0, by="bob"), *step), None)).result()
