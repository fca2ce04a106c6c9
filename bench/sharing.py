"""Sharing by itself: the allocation map, the memory guard, the split. `python -m bench.sharing` prints each figure.

The map and the guard are measured as the server calls them, on values in memory; the goals are those of one call.
"""

import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from corral.api.routes.graphql import execute
from corral.core.access.caller import Caller
from corral.core.control.launching.attempts import Attempts
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.querying.allocation_map import AllocationMap
from corral.core.model.devices.device import Device, DeviceProcess, DeviceSample, Node
from corral.core.model.fact import AllocationMade, NodeObserved
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.placing.split import split
from corral.core.model.placing.state import NodeState, Slot
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.scheduling.placing.ranking import Placer
from corral.core.scheduling.placing.worth.learner import Learner
from corral.core.scheduling.placing.worth.values import WorthScore
from corral.core.scheduling.state.columns import Columns, NodeCapacity
from corral.core.sharing.alloc_map import alloc_map, allocated_device, gpu_alloc_map
from corral.core.sharing.memory_overuse import Bound, GuardPolicy, GuardState, judge

DEVICES, JOBS = 1_000, 10_000
WATCHED_DEVICES, WATCHED_JOBS = 8, 400
REPEATS = 20
PLACED = 20_000
H100 = Slot("NVIDIA H100", 81920, (9, 0), free_milli=1000, free_mib=81920)


def main() -> None:
    the_map()
    the_guard()
    the_split()
    the_graph()
    the_rate()


def crowded() -> View:
    """A node on which every device has ten jobs."""
    devices = tuple(Device(f"GPU-{i:04d}", i, "NVIDIA H100", 81920) for i in range(DEVICES))
    made = (
        Allocation(
            f"a{i}", str(i), "ada", Placement((Member("n1", (Grant(f"GPU-{i % DEVICES:04d}", 100, 8192),)),)), 0.0
        )
        for i in range(JOBS)
    )
    return View().advance(
        [NodeObserved(Node("n1", devices, 64_000, 512_000)), *(AllocationMade(one, at=0.0, by="test") for one in made)]
    )


def the_map() -> None:
    view = crowded()
    what = f"{DEVICES:,} devices, {JOBS:,} jobs"
    map_ms = median_ms(lambda: gpu_alloc_map(alloc_map(view, "n1")))
    print(f"gpu_alloc_map, {what}: {map_ms:.1f} ms (goal 50 ms)")
    page_ms = median_ms(lambda: [allocated_device(view, f"GPU-{i:04d}") for i in range(100)])
    print(f"100 of the devices with the jobs on each: {page_ms:.1f} ms (goal 50 ms)")


def the_guard() -> None:
    bounds = [Bound(str(i), f"GPU-{i % WATCHED_DEVICES}", 1_000) for i in range(WATCHED_JOBS)]
    samples = {
        f"GPU-{d}": DeviceSample(
            f"GPU-{d}",
            1.0,
            memory_free_mib=10_000,
            processes=tuple(DeviceProcess(i, 1_001, job_id=str(i)) for i in range(d, WATCHED_JOBS, WATCHED_DEVICES)),
        )
        for d in range(WATCHED_DEVICES)
    }
    round_ms = median_ms(lambda: judge(bounds, samples, GuardState(), 0.0, GuardPolicy()))
    print(f"memory guard, every job over its grant: {round_ms / WATCHED_JOBS:.4f} ms a process (goal 0.2 ms)")


def the_split() -> None:
    free = [1000, 900, 800, 700, 600, 500, 400, 300]
    print(f"a share split evenly over 8 devices: {median_ms(lambda: split(3330, free)) * 1e3:.0f} µs")


def the_graph() -> None:
    view = crowded()
    ledger = SimpleNamespace(view=lambda: view)
    service: Any = SimpleNamespace(holdings=AllocationMap(cast(Ledger, ledger), Nodes(), cast(Attempts, None)))
    whole = '{ agent(agent_id: "n1") { gpu_alloc_map } }'
    page = (
        '{ agent(agent_id: "n1") { devices(offset: 500, limit: 100) { uuid allocated_milli jobs { job_id user } } } }'
    )
    for what, query in (("gpu_alloc_map", whole), ("100 of the devices with their jobs", page)):
        taken_ms = median_ms(lambda query=query: execute(query, None, None, service, Caller("ada")))  # type: ignore[misc]
        print(f"GraphQL, {what}: {taken_ms:.1f} ms (goal 50 ms)")


def the_rate() -> None:
    columns = Columns(
        [
            NodeCapacity(f"n{n:05d}", tuple(f"GPU-{n}-{i}" for i in range(8)), NodeState((H100,) * 8, 128_000, 786_432))
            for n in range(12_500)
        ]
    )
    placer = Placer(columns, WorthScore(columns, Learner(columns).settle()))
    requests = [Request(share_milli=s, split_milli=s, tenant=u) for s in (100, 250, 500) for u in ("ada", "bob")]
    for request in requests:
        placer.best(request)
    began = time.perf_counter()
    for i in range(PLACED):
        taking = placer.best(requests[i % len(requests)])
        assert taking is not None
        columns.take(taking)
    rate = PLACED / (time.perf_counter() - began)
    print(f"shares placed on 100,000 GPUs: {rate:,.0f} /s (goal 10,000 /s)")


def median_ms(call: Callable[[], object]) -> float:
    times_ms = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        times_ms.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times_ms)


if __name__ == "__main__":
    main()
