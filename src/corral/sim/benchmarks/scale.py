"""Placements per second on a nearly full fleet, with departures and learning, and the time of each decision."""

import resource
from time import perf_counter
from typing import Any

import numpy as np

from corral.core.model.jobs.job import Request
from corral.core.model.placing.state import NodeState, Slot
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.state.columns import Columns, NodeCapacity, RowGrant
from corral.sim.benchmarks.openb import shipped_trace, target_mix
from corral.sim.benchmarks.placement_policies import chooser
from corral.sim.engine import Progress, untold

NODE_CPU_MILLI, NODE_MEMORY_MIB = 128_000, 786_432
"""A node of openb's largest kind, G3."""

FILLED = 0.9
"""The part of the fleet's capacity that is allocated during the measurement."""

FRUITLESS = 200
"""The fleet counts as full if this many requests in a row, or as many as it has nodes, do not fit."""

SEED = 20_240_229


def run_scale(
    *,
    nodes: int,
    gpus_per_node: int,
    jobs: int,
    policy: str = "corral",
    taken_s: list[float] | None = None,
    progress: Progress = untold,
) -> dict[str, Any]:
    """Fill a fleet to FILLED with openb's request mix, uncounted, then place `jobs` more while others depart.

    The keys are those of `corral simulate scale`; times in ms, memory is the peak of this process in MiB. `kept_pct` is
    the level that departures keep, in percent of all GPUs: less than FILLED if cores or memory run out before GPUs.
    `taken_s` receives the time of each decision.
    """
    fleet = _Fleet(nodes, gpus_per_node, policy)
    fleet.fill()
    seconds = np.zeros(jobs)
    placed = 0
    started = perf_counter()
    for number in range(jobs):
        progress(number, jobs)
        fleet.depart()
        request = fleet.draw()
        before = perf_counter()
        found = fleet.place(request)
        seconds[number] = perf_counter() - before
        placed += found
        fleet.learn(request)
    wall_s = perf_counter() - started
    if taken_s is not None:
        taken_s += seconds.tolist()
    p50, p99 = np.percentile(seconds, (50, 99)) * 1000 if jobs else (0.0, 0.0)
    return {
        "policy": policy,
        "nodes": nodes,
        "gpus_per_node": gpus_per_node,
        "jobs": jobs,
        "placed_jobs": placed,
        "kept_pct": round(100 * fleet.kept_milli / fleet.capacity_milli, 2),
        "allocation_pct": round(100 * fleet.allocated_milli / fleet.capacity_milli, 2),
        "decisions_per_s": round(jobs / wall_s, 1) if jobs else 0.0,
        "decision_ms": {"p50": round(float(p50), 4), "p99": round(float(p99), 4)},
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "wall_s": round(wall_s, 3),
    }


class _Fleet:
    """Equal nodes, a stream of requests, and the jobs that run."""

    def __init__(self, nodes: int, gpus_per_node: int, policy: str) -> None:
        self.capacity_milli = nodes * gpus_per_node * MILLI_PER_DEVICE
        self.kept_milli = FILLED * self.capacity_milli
        self.allocated_milli = 0
        pods = shipped_trace().pods
        self._pods = [pod for pod in pods if pod.devices <= gpus_per_node]
        self._random = np.random.default_rng(SEED)
        self._drawn: list[int] = []
        self._running: list[RowGrant] = []
        self._columns = Columns([_node(number, gpus_per_node) for number in range(nodes)])
        self._chooser = chooser(policy, self._columns, target_mix(pods), SEED)

    def draw(self) -> Request:
        """Return the next request, drawn with its frequency in the trace."""
        return self._pods[self._pick(len(self._pods))]

    def fill(self) -> None:
        """Place requests until FILLED of the fleet, or of its capacity for them, is allocated."""
        failed, fruitless = 0, max(FRUITLESS, len(self._columns))
        while self.allocated_milli < self.kept_milli and failed < fruitless:
            request = self.draw()
            failed = 0 if self.place(request) else failed + 1
            self.learn(request)
        if failed == fruitless:
            self.kept_milli = FILLED * self.allocated_milli

    def place(self, request: Request) -> bool:
        """Place a request. Return False if it fits nowhere."""
        found = self._chooser.choose(request)
        if found is None:
            return False
        self._columns.take(found)
        self._running.append(found)
        self.allocated_milli += len(found.slots) * found.share_milli
        return True

    def learn(self, request: Request) -> None:
        """Let the policy learn from an arrival."""
        self._chooser.learn(request)

    def depart(self) -> None:
        """End random jobs until no more is allocated than should be."""
        while self.allocated_milli > self.kept_milli:
            at = self._pick(len(self._running))
            self._running[at], self._running[-1] = self._running[-1], self._running[at]
            ended = self._running.pop()
            self._columns.give(ended)
            self.allocated_milli -= len(ended.slots) * ended.share_milli

    def _pick(self, size: int) -> int:
        if not self._drawn:
            self._drawn = self._random.integers(0, 1 << 62, 4096).tolist()
        return self._drawn.pop() % size


def _node(number: int, gpus: int) -> NodeCapacity:
    slot = Slot(model="G3", memory_mib=None, compute=None, free_milli=MILLI_PER_DEVICE, free_mib=None)
    uuids = tuple(f"GPU-{number:06d}-{index}" for index in range(gpus))
    return NodeCapacity(f"node-{number:06d}", uuids, NodeState((slot,) * gpus, NODE_CPU_MILLI, NODE_MEMORY_MIB))
