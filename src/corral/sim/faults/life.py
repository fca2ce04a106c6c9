"""A server under random faults: real ledger, hub, controller and dispatcher over nodes with simulated work.

Events are drawn from a seed: jobs and gangs come and end, devices fail and recover, launches vanish without a report,
nodes fall silent, are given up and come back, their agents crash, gangs are launched by half, nodes are drained, disks
of nodes and of the ledger are full for a while, clocks are wrong, a server stops or is killed and another takes over.
After each event it is checked that all promises were kept.
"""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.clock import ManualClock
from corral.config import Settings
from corral.core.access.caller import Caller
from corral.core.control.changing.job_changes import Verb
from corral.core.ledger.fold import check
from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import Conflict, LedgerFailed, Refused
from corral.core.model.home import Home
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.site_faults import OnFault
from corral.core.model.jobs.submission import Submission
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.ports.ledger import JobQuery
from corral.sim.engine import Progress, untold
from corral.sim.faults.faulty_node import FaultyNode
from corral.sim.faults.faulty_server import FaultyServer
from corral.sim.faults.kept_promises import KeptPromises
from corral.sim.faults.witness import Witness
from corral.sim.replays.journal import read_journal
from corral.sim.replays.past import record
from corral.sim.reports.history import History

AT_ONCE = 4
"""The most jobs that arrive together."""

GANGS = 0.5
"""The fraction of jobs that are gangs, if there are at least two devices."""

PASSES_AFTER_MISHAP = 0.4
"""The probability that time passes after a node fell silent during a call, until it is nearly given up."""

FAILS_FIRST = 0.5
"""The probability that the work on a failed device fails before the server knows of the device."""

LEAVES_MEANWHILE = 0.15
"""The probability that a node leaves the cluster while no server runs."""

MOST_WRONG_S = 7200.0
"""The most by which a clock is wrong, or is set."""

MEMORY_MIB = 81_920
STARTED_AT = 1_700_000_000.0
STEP_S = 5.0
"""Time passes in these steps; the server's periodic work is done in each."""

SETTINGS = Settings(
    node_silent_after_s=10.0, node_gone_after_s=45.0, kill_grace_s=5.0, retry_backoff_s=0.5, retry_backoff_max_s=4.0
)
STEPS_TO_THE_END = 200
SOMEBODY = Caller("somebody", 1000, 1000, (1000,), admin=True)


def simulate(
    *,
    nodes: int = 3,
    gpus: int,
    jobs: int,
    seed: int,
    history: History | None = None,
    progress: Progress = untold,
) -> dict[str, Any]:
    """Run until `jobs` jobs have arrived, then until the last has ended. `gpus` are those of each node.

    `guarantees_broken` has a sentence for each broken promise; there should be none. `history` receives the course.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="corral-life-") as directory:
        life = _Life(Home(Path(directory)), nodes, gpus, seed)
        try:
            while len(life.acknowledged) < jobs:
                life.go_on()
                progress(len(life.acknowledged), jobs)
            life.run_out()
            ended = life.server.ledger.jobs(JobQuery())
        finally:
            life.server.close()
        life.promises.look_at_ends(ended, life.acknowledged)
        broken = [*life.promises.broken, *check(life.home.ledger_url)]
        if history is not None:
            record(read_journal(life.home.ledger_url), history)
    return {
        "seed": seed,
        "nodes": nodes,
        "gpus": gpus,
        "jobs": len(life.acknowledged),
        "events": dict(sorted(life.events.items())),
        "launches": life.witness.launches,
        "ended": dict(sorted(Counter(job.phase.value for job in ended).items())),
        "guarantees_broken": broken,
        "wall_s": round(time.perf_counter() - began, 3),
    }


@dataclass(slots=True)
class _Life:
    """The simulated world, and the server's promises."""

    home: Home
    node_count: int
    gpus: int
    seed: int
    chance: random.Random = field(init=False)
    drawn: int = 0
    acknowledged: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    clock: ManualClock = field(default_factory=lambda: ManualClock(STARTED_AT))
    witness: Witness = field(default_factory=Witness)
    nodes: dict[str, FaultyNode] = field(init=False)
    away: set[str] = field(default_factory=set)
    """Nodes that are not part of the cluster at present."""
    promises: KeptPromises = field(init=False)
    server: FaultyServer = field(init=False)

    def __post_init__(self) -> None:
        names = [f"node{number}" for number in range(self.node_count)]
        self.nodes = {name: FaultyNode(_inventory(name, self.gpus), self.clock, self.witness) for name in names}
        self.promises = KeptPromises(self.witness, self.nodes, self.clock, SETTINGS)
        self._start_server()

    def go_on(self) -> None:
        """Let one event happen, and check the promises."""
        possible = self._possible_events()
        # Each event has a random generator of its own: its draws depend on the server's threads and must not shift
        # later ones.
        self.drawn += 1
        self.chance = random.Random(f"{self.seed}/{self.drawn}")
        (event,) = self.chance.choices(list(possible), [weight for weight, _ in possible.values()])
        _, happen = possible[event]
        if self._has_happened(happen):
            self.events[event] += 1
            self.server.hear()
            self.promises.look(self.server)

    @staticmethod
    def _has_happened(happen: Callable[[], bool]) -> bool:
        try:
            return happen()
        except LedgerFailed:
            # Whoever asked is told that nothing was written. All the same, that is an event.
            return True

    def _possible_events(self) -> dict[str, tuple[int, Callable[[], bool]]]:
        """Return by name how often an event is drawn, and its action; the action returns False if it cannot happen
        now.
        """
        return {
            "come": (5, self._come),
            "end": (6, self._end),
            "fail": (2, self._fail),
            "die": (1, self._die),
            "cancel": (1, self._cancel),
            "requeue": (1, self._requeue),
            "sicken": (2, self._sicken),
            "recover": (2, self._recover),
            "pass": (8, self._pass),
            "give_up": (2, self._give_up),
            "silence": (3, self._silence),
            "mishap": (5, self._mishap),
            "return": (4, self._return),
            "restart_agent": (1, self._restart_agent),
            "lose_power": (1, self._lose_power),
            "fill_disk": (1, self._fill_disk),
            "clear_disk": (2, self._clear_disk),
            "fill_ledger": (1, self._fill_ledger),
            "clear_ledger": (2, self._clear_ledger),
            "set_clock": (1, self._set_clock),
            "drift": (1, self._drift),
            "leave": (1, self._leave),
            "join": (2, self._join),
            "cordon": (1, self._cordon),
            "drain": (1, self._drain),
            "uncordon": (2, self._uncordon),
            "restart": (1, self._restart),
            "kill": (2, self._kill),
        }

    def run_out(self) -> None:
        """Repair everything, and let all work end."""
        self._clear_ledger()
        while self._join():
            pass
        for name, node in self.nodes.items():
            node.speak()
            node.sick.clear()
            node.obstacle = None
            self.server.service.node_cordons.uncordon(name, SOMEBODY)
        for step in range(STEPS_TO_THE_END):
            if not self.server.ledger.view().jobs:
                return
            self._let_pass(1)
            for launch in sorted(self.witness.running):
                self._node_of(launch).runtime.finish(launch)
            self._settle_what_was_sick(step)
            self.server.hear()
        self.promises.broken.append(f"jobs never end: {sorted(self.server.ledger.view().jobs)}")

    def _settle_what_was_sick(self, step: int) -> None:
        """Release held jobs as an administrator, and in the end cancel jobs that keep off too many devices to start."""
        for job in list(self.server.ledger.view().jobs.values()):
            if job.phase is Phase.PENDING and job.held:
                self._change(Verb.RELEASE, job.id)
            elif job.phase is Phase.PENDING and job.spec.request.avoided and step > STEPS_TO_THE_END // 2:
                self._change(Verb.CANCEL, job.id)

    def _change(self, verb: Verb, job_id: str) -> bool:
        try:
            self.server.service.changes.one(verb, job_id, SOMEBODY)
        except Conflict:
            return False
        return True

    def _start_server(self) -> None:
        present = {name: node for name, node in self.nodes.items() if name not in self.away}
        self.server = FaultyServer(self.home, present, self.clock, SETTINGS)
        self.witness.view = self.server.ledger.view

    def _let_pass(self, steps: int) -> None:
        for _ in range(steps):
            self.clock.advance(STEP_S)
            for node in self.nodes.values():
                node.runtime.kill_lingering()
                node.sample_all()
            self.server.round()
            self.promises.look(self.server)

    # Jobs

    def _come(self) -> bool:
        return self._submit([self._submission() for _ in range(self.chance.randint(1, AT_ONCE))])

    def _submit(self, work: list[Submission]) -> bool:
        try:
            self.acknowledged += self.server.service.submit(work, SOMEBODY)
        except (Refused, LedgerFailed):
            # A job may need more nodes than there are at present, or nothing can be written.
            return False
        return True

    def _submission(self) -> Submission:
        retries = self.chance.choice([0, 0, 1, 3])
        if self.node_count * self.gpus > 1 and self.chance.random() < GANGS:
            members = self.chance.randint(2, min(3, self.node_count * self.gpus))
            spread = members <= self.node_count and self.chance.random() < 0.7
            request = Request(devices=1, gang_size=members, spread=spread)
        else:
            share_milli = self.chance.choice([1000, 1000, 750, 500, 300])
            devices = self.chance.randint(0, min(2, self.gpus)) if share_milli == MILLI_PER_DEVICE else 1
            request = Request(devices=devices, share_milli=share_milli)
        on_fault = self.chance.choice([None, *OnFault])
        priority = self.chance.randint(1, 9)
        return Submission(("true",), request=request, priority=priority, retries=retries, on_fault=on_fault)

    def _end(self) -> bool:
        return self._finish(0)

    def _fail(self) -> bool:
        return self._finish(self.chance.randint(1, 99))

    def _finish(self, exit_code: int) -> bool:
        launch = self._some_launch()
        if launch is not None:
            self._node_of(launch).runtime.finish(launch, exit_code)
        return launch is not None

    def _die(self) -> bool:
        """Let a launch vanish without a report."""
        launch = self._some_launch()
        if launch is not None:
            self._node_of(launch).runtime.die(launch)
        return launch is not None

    def _cancel(self) -> bool:
        return self._ask(Verb.CANCEL)

    def _requeue(self) -> bool:
        return self._ask(Verb.REQUEUE)

    def _ask(self, verb: Verb) -> bool:
        jobs = sorted(self.server.ledger.view().jobs)
        if not jobs:
            return False
        return self._change(verb, self.chance.choice(jobs))

    # Devices and nodes

    def _sicken(self) -> bool:
        """Let a device fail, and often the work on it before the server hears of the device."""
        node = self._some_node()
        well = sorted({device.uuid for device in node.inventory.devices} - node.sick)
        if not well:
            return False
        uuid = self.chance.choice(well)
        node.sick.add(uuid)
        node.sample_all()
        for name, one in sorted(self.witness.running.items()) if self.chance.random() < FAILS_FIRST else ():
            if any(use.device.uuid == uuid for use in one.launch.uses):
                node.runtime.finish(name, 1)
        return True

    def _recover(self) -> bool:
        sick = [node for node in self.nodes.values() if node.sick]
        if not sick:
            return False
        node = self.chance.choice(sick)
        node.sick.remove(self.chance.choice(sorted(node.sick)))
        node.sample_all()
        return True

    def _pass(self) -> bool:
        self._let_pass(self.chance.randint(1, 6))
        return True

    def _give_up(self) -> bool:
        """Let enough time pass that silent nodes are given up; make one silent if none is."""
        if not any(node.silent for node in self.nodes.values()):
            self._silence()
        self._let_pass(int(SETTINGS.node_gone_after_s / STEP_S) + 1)
        return True

    def _silence(self) -> bool:
        return self._go_silent(self._some_node())

    def _mishap(self) -> bool:
        """Let a node or its agent fail in the middle of a call, for example while a gang is launched on all nodes."""
        call = self.chance.choice(["launch", "launch", "launch", "stop", "reports", "reconcile", "ready", "rendezvous"])
        how = self.chance.choice(["before", "after", "late", "crashes before", "crashes after"])
        self._some_node().fail_at(f"launches.{call}", how)
        present = len(self.nodes) - len(self.away)
        if present > 1:
            gang = Request(devices=1, gang_size=present, spread=True)
            self._submit([Submission(("true",), request=gang, priority=0, retries=self.chance.choice([0, 2]))])
        if self.chance.random() < PASSES_AFTER_MISHAP:
            self.server.hear()
            self._let_pass(int(SETTINGS.node_gone_after_s / STEP_S) - 1)
        return True

    def _return(self) -> bool:
        silent = [node for node in self.nodes.values() if node.silent]
        if not silent:
            return False
        self.chance.choice(silent).speak()
        return True

    def _restart_agent(self) -> bool:
        self._some_node().restart_agent()
        return True

    def _lose_power(self) -> bool:
        self._some_node().lose_power()
        return True

    def _fill_disk(self) -> bool:
        """Let the disk of a node be full: nothing can start there, and what runs goes on."""
        node = self._some_node()
        was, node.obstacle = node.obstacle, "its disk is full in the simulation"
        return was is None

    def _clear_disk(self) -> bool:
        full = [node for node in self.nodes.values() if node.obstacle is not None]
        if full:
            self.chance.choice(full).obstacle = None
        return bool(full)

    def _fill_ledger(self) -> bool:
        """Let the disk of the ledger be full: what is not written did not happen, and what runs goes on."""
        was_full = self.server.disk_full
        self.server.fill_disk()
        return not was_full

    def _clear_ledger(self) -> bool:
        was_full = self.server.disk_full
        self.server.clear_disk()
        return was_full

    def _drift(self) -> bool:
        """Let the clock of a node be wrong by hours."""
        self._some_node().wrong_clock.ahead_s = self.chance.choice([-1.0, 1.0]) * self.chance.uniform(1, MOST_WRONG_S)
        return True

    def _set_clock(self) -> bool:
        """Set the wall clock of the server's host forward or back."""
        self.clock.step(self.chance.uniform(-MOST_WRONG_S, MOST_WRONG_S))
        return True

    def _leave(self) -> bool:
        """Take a node out of the cluster, but never the last one."""
        name = self._one_to_leave()
        if name is not None:
            self.server.leave(name)
        return name is not None

    def _one_to_leave(self) -> str | None:
        present = sorted(self.nodes.keys() - self.away)
        if len(present) < 2:
            return None
        name = self.chance.choice(present)
        self.away.add(name)
        return name

    def _join(self) -> bool:
        if not self.away:
            return False
        name = self.chance.choice(sorted(self.away))
        self.away.remove(name)
        self.server.join(name, self.nodes[name])
        return True

    def _go_silent(self, node: FaultyNode) -> bool:
        was, node.silent = node.silent, True
        return not was

    def _cordon(self) -> bool:
        self.server.service.node_cordons.cordon(self._some_present(), "a test", SOMEBODY)
        return True

    def _drain(self) -> bool:
        deadline_s = self.chance.choice([None, 0.0, STEP_S, 4 * STEP_S])
        self.server.service.node_cordons.drain(self._some_present(), "a test", deadline_s, SOMEBODY)
        return True

    def _uncordon(self) -> bool:
        cordoned = sorted(self.server.ledger.view().node_cordons.keys() - self.away)
        if cordoned:
            self.server.service.node_cordons.uncordon(self.chance.choice(cordoned), SOMEBODY)
        return bool(cordoned)

    # Servers

    def _restart(self) -> bool:
        """Stop the server, let some work end meanwhile, and start another server."""
        self.server.close()
        return self._replace_server()

    def _kill(self) -> bool:
        """Kill the server in the middle of its work for jobs that have just arrived."""
        self.server.cable.cut_after(self.chance.randint(0, 12))
        self._come()
        self.server.hear()
        self.server.kill()
        return self._replace_server()

    def _replace_server(self) -> bool:
        self.witness.view = None
        if self.chance.random() < LEAVES_MEANWHILE:
            self._one_to_leave()
        for launch in sorted(self.witness.running):
            if self.chance.random() < 0.2:
                self._node_of(launch).runtime.finish(launch, self.chance.choice([0, 7]))
        self._start_server()
        return True

    # Choices

    def _some_launch(self) -> str | None:
        running = sorted(self.witness.running)
        return self.chance.choice(running) if running else None

    def _some_node(self) -> FaultyNode:
        return self.chance.choice(list(self.nodes.values()))

    def _some_present(self) -> str:
        return self.chance.choice(sorted(self.nodes.keys() - self.away))

    def _node_of(self, launch: str) -> FaultyNode:
        return self.nodes[self.witness.running[launch].node]


def _inventory(name: str, gpus: int) -> Node:
    devices = tuple(Device(f"GPU-{name}-{index}", index, "Simulated", MEMORY_MIB) for index in range(gpus))
    return Node(name, devices, 64_000, 512 * 1024)
