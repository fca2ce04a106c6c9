"""A server under random faults: the real ledger, controller and dispatcher over simulated work.

Events are drawn from a seed: jobs arrive and end, devices fail and recover, launches vanish without a report, a server
is killed and another takes over. After each event it is checked that the server has kept its guarantees.
"""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.access.caller import Caller
from corral.clock import SystemClock
from corral.ledger.fold import check
from corral.model.device import Device, DeviceCondition, Node
from corral.model.fact import ConditionObserved, NodeObserved, Observation
from corral.model.home import Home
from corral.model.job import Phase, Request
from corral.model.submission import Submission
from corral.model.units import MILLI_PER_DEVICE
from corral.node.simulated_node import SimulatedNode
from corral.ports.ledger import JobQuery
from corral.runtimes.simulated import SimulatedRuntime
from corral.sim.history import History
from corral.sim.journal import read_journal
from corral.sim.live_server import PATIENCE_S, LiveServer
from corral.sim.past import record

DEEDS = (("come", 8), ("end", 8), ("fail", 2), ("die", 1), ("sicken", 2), ("recover", 2), ("restart", 1))
"""The possible events, each as often as it is drawn."""

AT_ONCE = 4
"""The most jobs that arrive together."""

MEMORY_MIB = 81_920
NODE = "simulated"

SOMEBODY = Caller("somebody", 1000, 1000, (1000,), admin=True)


def simulate(*, gpus: int, jobs: int, seed: int, history: History | None = None) -> dict[str, Any]:
    """Run until so many jobs have arrived, then until the last of them has ended.

    `broken` has a sentence for each guarantee that was broken; there should be none. `history` receives the course.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="corral-life-") as directory:
        life = _Life(Home(Path(directory)), gpus, seed)
        try:
            while len(life.acknowledged) < jobs:
                life.head_started()
            life.run_out()
        finally:
            life.server.close()
        broken = [*life.broken, *life.lost(), *check(life.home.ledger_url)]
        if history is not None:
            record(read_journal(life.home.ledger_url), history)
    return {
        "seed": seed,
        "gpus": gpus,
        "jobs": len(life.acknowledged),
        "events": dict(sorted(life.events.items())),
        "launches": len(life.runtime.ran),
        "ended": dict(sorted(life.ended().items())),
        "broken": broken,
        "wall_s": round(time.perf_counter() - began, 3),
    }


@dataclass(slots=True)
class _Life:
    """What goes on, and what was promised."""

    home: Home
    gpus: int
    seed: int
    chance: random.Random = field(init=False)
    drawn: int = 0
    acknowledged: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    sick: set[str] = field(default_factory=set)
    runtime: SimulatedRuntime = field(default_factory=lambda: SimulatedRuntime(SystemClock()))
    nodes: Mapping[str, SimulatedNode] = field(init=False)
    phases: Mapping[str, Phase] = field(default_factory=dict)
    server: LiveServer = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = {NODE: SimulatedNode(self.runtime, SystemClock())}
        self.server = LiveServer(self.home, self.nodes, self._observed())

    def head_started(self) -> None:
        """Let one event happen, and check the guarantees."""
        names, weights = zip(*DEEDS, strict=True)
        # Each with draws of its own: what it finds is up to a server's threads, and moves nothing that comes after it.
        self.drawn += 1
        self.chance = random.Random(f"{self.seed}/{self.drawn}")
        (deed,) = self.chance.choices(names, weights)
        if getattr(self, f"_{deed}")():
            self.events[deed] += 1
            self.server.settle()
            self._look()

    def run_out(self) -> None:
        """Repair everything, and let all work end."""
        self.sick.clear()
        self.server.ledger.observe(self._observed())
        deadline = time.monotonic() + PATIENCE_S
        while self.server.ledger.view().jobs:
            assert time.monotonic() < deadline, f"jobs never end: {sorted(self.server.ledger.view().jobs)}"
            for allocation_id in sorted(self.server.ledger.view().allocations):
                self.runtime.finish(allocation_id)
            self.server.settle()
            self._look()
        self.phases = {job.id: job.phase for job in self.server.ledger.jobs(JobQuery())}

    def ended(self) -> Counter[str]:
        """How many jobs ended in which phase."""
        return Counter(phase.value for phase in self.phases.values())

    def lost(self) -> list[str]:
        """Jobs that were acknowledged and that the ledger does not have."""
        return [f"job {one} was acknowledged and is not there" for one in self.acknowledged if one not in self.phases]

    def _look(self) -> None:
        ran = Counter(self.runtime.ran)  # before the view, which may be of a moment later
        view = self.server.ledger.view()
        for uuid in view.holders:
            if view.allocated_milli(uuid) > MILLI_PER_DEVICE or view.allocated_mib(uuid) > MEMORY_MIB:
                self.broken.append(f"{uuid} is handed out more than once: {view.allocated_milli(uuid)} milli")
        for job in view.jobs.values():
            if ran[job.id] > job.launches:
                self.broken.append(f"job {job.id} ran {ran[job.id]} times and was launched {job.launches} times")

    def _observed(self) -> list[Observation]:
        devices = tuple(Device(f"GPU-{index}", index, "Simulated", MEMORY_MIB) for index in range(self.gpus))
        conditions = [ConditionObserved(self._condition(device.uuid)) for device in devices]
        return [NodeObserved(Node(NODE, devices, 64_000, 512 * 1024)), *conditions]

    def _condition(self, uuid: str) -> DeviceCondition:
        if uuid in self.sick:
            return DeviceCondition(uuid, unhealthy="it failed in the simulation")
        return DeviceCondition(uuid, memory_free_mib=MEMORY_MIB, utilization_pct=0)

    def _come(self) -> bool:
        work = [self._submission() for _ in range(self.chance.randint(1, AT_ONCE))]
        self.acknowledged += self.server.service.submit(work, SOMEBODY)
        return True

    def _submission(self) -> Submission:
        share_milli = self.chance.choice([1000, 1000, 750, 500, 300])
        devices = self.chance.randint(0, min(4, self.gpus)) if share_milli == MILLI_PER_DEVICE else 1
        return Submission(
            ("true",),
            request=Request(devices=devices, share_milli=share_milli),
            priority=self.chance.randint(1, 9),
            retries=self.chance.choice([0, 0, 1, 3]),
            time_limit_s=self.chance.choice([None, 60.0, 3600.0]),
        )

    def _end(self) -> bool:
        return self._finish(0)

    def _fail(self) -> bool:
        return self._finish(1)

    def _finish(self, exit_code: int) -> bool:
        allocation_id = self._somebody()
        if allocation_id is not None:
            self.runtime.finish(allocation_id, exit_code)
            self._wait_for_the_end_of(allocation_id)
        return allocation_id is not None

    def _die(self) -> bool:
        """A launch vanishes without a report."""
        allocation_id = self._somebody()
        if allocation_id is not None:
            self.runtime.die(allocation_id)
            self._wait_for_the_end_of(allocation_id)
        return allocation_id is not None

    def _sicken(self) -> bool:
        """A device fails, and so does what runs on it."""
        well = sorted({f"GPU-{index}" for index in range(self.gpus)} - self.sick)
        if not well:
            return False
        uuid = self.chance.choice(well)
        self.sick.add(uuid)
        self.server.ledger.observe([ConditionObserved(self._condition(uuid))])
        for allocation_id in self.server.ledger.view().holders.get(uuid, ()):
            self.runtime.finish(allocation_id, 1)
            self._wait_for_the_end_of(allocation_id)
        return True

    def _recover(self) -> bool:
        if not self.sick:
            return False
        uuid = self.chance.choice(sorted(self.sick))
        self.sick.remove(uuid)
        self.server.ledger.observe([ConditionObserved(self._condition(uuid))])
        return True

    def _restart(self) -> bool:
        """The server stops, some work ends meanwhile, and another server starts."""
        self.server.close()
        self.runtime.on_event = lambda _: None
        for allocation_id in sorted(self.server.ledger.view().allocations):
            if self.chance.random() < 0.3:
                self.runtime.finish(allocation_id)
        self.server = LiveServer(self.home, self.nodes, self._observed())
        return True

    def _somebody(self) -> str | None:
        live = sorted(self.server.ledger.view().allocations)
        return self.chance.choice(live) if live else None

    def _wait_for_the_end_of(self, allocation_id: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while allocation_id in self.server.ledger.view().allocations:
            assert time.monotonic() < deadline, f"the end of {allocation_id} is not noticed"
            time.sleep(0.001)
