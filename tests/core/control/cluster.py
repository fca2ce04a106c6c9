"""Nodes on which work only seems to run, a real ledger, and the parts of control that act on both."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from corral.clock import SystemClock
from corral.core.control.launching.dispatcher import Dispatcher
from corral.core.control.launching.environment import launches_of
from corral.core.control.nodes.gone_and_returned_nodes import Recovery
from corral.core.control.nodes.node_registry import Nodes
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.lifecycle import starting
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.fact import AllocationMade, ConditionObserved, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.features.feature_list import slices
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.live_server import QuietHub

PATIENCE_S = 60.0
KILL_GRACE_S = 0.2


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.002)


class Cluster:
    """Nodes with four GPUs each, and a dispatcher for them; nothing decides, jobs are placed by the test."""

    def __init__(self, root: Path, *names: str) -> None:
        self.clock = SystemClock()
        self.url = f"sqlite:///{root / 'ledger.db'}"
        self.nodes = {name: self._node() for name in names}
        self.ledger: SqlLedger = open_ledger(self.url, slices=slices())
        for name in names:
            devices = tuple(Device(f"{name}-{index}", index, "GPU", 81_920) for index in range(4))
            idle = [ConditionObserved(DeviceCondition(device.uuid, memory_free_mib=81_920)) for device in devices]
            self.ledger.observe([NodeObserved(Node(name, devices, 64_000, 512 * 1024)), *idle])
        self.ledger.commit(lambda _: Decided((), None)).result()
        self.start()

    def start(self) -> None:
        """A server comes."""
        self.registry = Nodes(self.nodes)
        self.hub = QuietHub(self.nodes)
        self.dispatcher = Dispatcher(
            self.ledger, self.registry, self.clock, launches_of, Backoff(0.001, 0.002), kill_grace_s=KILL_GRACE_S
        )
        self.recovery = Recovery(self.ledger, self.registry, self.dispatcher, self.hub)
        for name, node in self.nodes.items():
            node.runtime.on_event = lambda launch_id, name=name: self.dispatcher.look(name, [launch_id])  # type: ignore[misc]

    def stop(self) -> None:
        """The server goes away; what runs, runs on."""
        self.dispatcher.close()
        for node in self.nodes.values():
            node.answer_again()
            node.runtime.on_event = lambda _: None
        self.registry.close()

    def close(self) -> None:
        self.stop()
        self.ledger.close()

    def _node(self) -> SimulatedNode:
        return SimulatedNode(SimulatedRuntime(self.clock), self.clock, answer_within_s=0.3)

    def commit(self, number: int, *members: Member, **terms: Any) -> str:
        """A job of this number, with these `terms` of a spec, gets these members; the id of its allocation."""
        return self.commit_soon(number, *members, **terms).result()

    def commit_soon(self, number: int, *members: Member, **terms: Any) -> "Future[str]":
        """As `commit`, without waiting for the ledger."""
        request = Request(devices=len(members[0].grants), gang_size=len(members))
        waiting = Job(str(number), number, JobSpec("alice", ("true",), request=request, **terms), 0.0)

        def decide(view: View) -> Decided[str]:
            now = self.clock.now()
            step = starting.start(waiting, Placement(members), by="test", at=now)
            made = next(fact for fact in step if isinstance(fact, AllocationMade))
            return Decided((JobSubmitted(waiting, at=now, by="alice"), *step), made.allocation.id)

        return self.ledger.commit(decide)

    def run(self, number: int, *members: Member, **terms: Any) -> str:
        """As `commit`, and the job runs."""
        allocation_id = self.commit(number, *members, **terms)
        self.dispatcher.launch(allocation_id)
        until(lambda: self.phase(number) is Phase.RUNNING)
        return allocation_id

    def job(self, number: int) -> Job:
        found = self.ledger.view().jobs.get(str(number)) or self.ledger.find_job(str(number))
        assert found is not None
        return found

    def phase(self, number: int) -> Phase:
        return self.job(number).phase


def on(node: str, *indices: int) -> Member:
    """A member with these GPUs of a node."""
    return Member(node, tuple(Grant(f"{node}-{index}", 1000) for index in indices))
