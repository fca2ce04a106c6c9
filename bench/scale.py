"""How fast placements are decided on a nearly full fleet, and what its size costs: `python -m bench.scale`.

Most of its minutes go into filling the largest fleet with a million jobs.
"""

import random
import time

import numpy as np

from corral.core.model.devices.device import Device, Node
from corral.core.model.fact import AllocationEnded, AllocationMade, Delta, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.core.model.placing.state import NodeState, Slot
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.placing.ranking import Placer
from corral.core.scheduling.placing.worth.learner import Learner
from corral.core.scheduling.placing.worth.values import WorthScore
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Policy
from corral.core.scheduling.queueing.order import FCFS
from corral.core.scheduling.state.columns import Columns, NodeCapacity
from corral.sim.benchmarks.openb import shipped_trace
from corral.sim.benchmarks.scale import run_scale
from corral.sim.engine import inventory

GPUS_PER_NODE = 8
HUGE_NODES, HUGE_JOBS = 125_000, 20_000
GANG_NODES, GANGS = 5_000, 1_500
PLANNER_NODES, PLANNER_JOBS, FILLED = 12_500, 5_000, 0.9


def main() -> None:
    small = run_scale(nodes=1_250, gpus_per_node=GPUS_PER_NODE, jobs=10_000)
    large = run_scale(nodes=12_500, gpus_per_node=GPUS_PER_NODE, jobs=100_000)
    print(
        f"12,500 nodes x 8 GPUs: {large['decisions_per_s']:,.0f} decisions/s (goal 10,000), "
        f"p99 {large['decision_ms']['p99']:.2f} ms (goal 5), {large['peak_mib']:.0f} MiB (goal 600)"
    )
    growth = large["decision_ms"]["p50"] / small["decision_ms"]["p50"]
    print(f"a fleet ten times as large: a decision takes x{growth:.2f} (goal: less than x2)")
    huge = run_scale(nodes=HUGE_NODES, gpus_per_node=GPUS_PER_NODE, jobs=HUGE_JOBS)
    print(
        f"{HUGE_NODES:,} nodes x 8, a million GPUs: {huge['decisions_per_s']:,.0f} decisions/s "
        f"(12,500 nodes: {large['decisions_per_s']:,.0f}), p99 {huge['decision_ms']['p99']:.2f} ms, "
        f"{huge['peak_mib']:,.0f} MiB (goal 1,536)"
    )
    print(f"gangs of 2 to 32 members on 5,000 nodes: {gangs_per_s():,.0f} gangs/s (goal 1,000)")
    p50_ms, p99_ms = planner_decision_ms()
    print(
        f"the whole planner on {PLANNER_NODES:,} nodes x 8 GPUs, one job at a time with all its facts: "
        f"{p50_ms:.2f} ms, p99 {p99_ms:.2f} ms (kube-scheduler on 5,000 nodes: 680 to 810 pods/s, 1.2 to 1.5 ms each)"
    )


def gangs_per_s() -> float:
    """Place and hand out gangs on an empty fleet."""
    slot = Slot("G3", None, None, 1000, None)
    state = NodeState((slot,) * GPUS_PER_NODE, 128_000, 786_432)
    columns = Columns(
        [NodeCapacity(f"n{i:05}", tuple(f"g{i}-{j}" for j in range(GPUS_PER_NODE)), state) for i in range(GANG_NODES)]
    )
    placer = Placer(columns, WorthScore(columns, Learner(columns).settle()))
    sizes = np.random.default_rng(7).integers(2, 33, GANGS).tolist()
    began = time.perf_counter()
    for size in sizes:
        found = placer.place(Request(gang_size=size, cpu_milli=8_000))
        for taking in found or ():
            columns.take(taking)
    return GANGS / (time.perf_counter() - began)


def planner_decision_ms() -> tuple[float, float]:
    """p50 and p99 of what one job costs a planner: its submission, its place, its start, and the ends of others."""
    planner = Planner(policy=Policy(FCFS))
    planner.advance(inventory(_node(number) for number in range(PLANNER_NODES)))
    fleet = _Fleet(planner)
    while fleet.filled < FILLED:
        fleet.step(256)
    seconds = []
    for _ in range(PLANNER_JOBS):
        began = time.perf_counter()
        fleet.step(1)
        seconds.append(time.perf_counter() - began)
        while planner.learn():
            pass
    p50, p99 = np.percentile(seconds, (50, 99)) * 1000
    return float(p50), float(p99)


class _Fleet:
    """Jobs of openb's mix that come, start, and end by chance when more than FILLED of the fleet is handed out."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._chance = random.Random(7)
        self._pods = shipped_trace().pods
        self._running: list[Job] = []
        self._milli = self._submitted = 0

    @property
    def filled(self) -> float:
        """The part of the fleet that is handed out."""
        return self._milli / (PLANNER_NODES * GPUS_PER_NODE * MILLI_PER_DEVICE)

    def step(self, jobs: int) -> None:
        """So many jobs come and are decided on; those that have no place go away again."""
        now = float(self._submitted)
        come = [self._job() for _ in range(jobs)]
        self._planner.advance([*self._ends(now), *(JobSubmitted(job, at=now, by="alice") for job in come)])
        deltas: list[Delta] = []
        started = {start.job_id: start for start in self._planner.plan(now).starts}
        for job in come:
            start = started.get(job.id)
            if start is None:
                deltas.append(JobChanged(job.id, {"phase": Phase.CANCELLED}, at=now, by="test"))
                continue
            allocation = Allocation(f"{job.id}.1", job.id, "bench", start.placement, now)
            running: JobPatch = {"phase": Phase.RUNNING, "started_at": now, "allocation_id": allocation.id}
            deltas += [JobChanged(job.id, running, at=now, by="test"), AllocationMade(allocation, at=now, by="test")]
            self._running.append(job)
            self._milli += job.spec.request.total_milli
        self._planner.advance(deltas)

    def _job(self) -> Job:
        self._submitted += 1
        spec = JobSpec(user=f"user-{self._submitted % 50}", request=self._chance.choice(self._pods))
        return Job(str(self._submitted), self._submitted, spec, float(self._submitted))

    def _ends(self, now: float) -> list[Delta]:
        deltas: list[Delta] = []
        while self.filled > FILLED:
            at = self._chance.randrange(len(self._running))
            self._running[at], self._running[-1] = self._running[-1], self._running[at]
            job = self._running.pop()
            self._milli -= job.spec.request.total_milli
            done: JobPatch = {"phase": Phase.SUCCEEDED, "ended_at": now, "allocation_id": None, "exit_code": 0}
            deltas += [
                JobChanged(job.id, done, at=now, by="test"),
                AllocationEnded(f"{job.id}.1", job.id, at=now, by="test"),
            ]
        return deltas


def _node(number: int) -> Node:
    devices = tuple(Device(f"GPU-{number:06d}-{index}", index, "G3", None) for index in range(GPUS_PER_NODE))
    return Node(f"node-{number:06d}", devices, 128_000, 786_432)


if __name__ == "__main__":
    main()
