"""Sharing by itself: the allocation map, the memory guard, the split. `python -m bench.sharing` prints each figure.

The map and the guard are measured as the server calls them, on values in memory; the goals are those of one call.
"""

import statistics
import time
from collections.abc import Callable
from types import MappingProxyType

from corral.model.allocation import Allocation, Grant, Member, Placement
from corral.model.device import DeviceProcess, DeviceSample
from corral.model.split import split
from corral.model.view import View
from corral.sharing.alloc_map import alloc_map, gpu_alloc_map, held_devices
from corral.sharing.guard import Bound, GuardPolicy, GuardState, judge

DEVICES, JOBS = 1_000, 10_000
WATCHED_DEVICES, WATCHED_JOBS = 8, 400
REPEATS = 20


def main() -> None:
    the_map()
    the_guard()
    the_split()


def the_map() -> None:
    allocations = {
        f"a{i}": Allocation(
            f"a{i}", str(i), "ada", Placement((Member("n1", (Grant(f"GPU-{i % DEVICES:04d}", 100, 8192),)),)), 0.0
        )
        for i in range(JOBS)
    }
    view = View(allocations=MappingProxyType(allocations))
    what = f"{DEVICES:,} devices, {JOBS:,} jobs"
    map_ms = median_ms(lambda: gpu_alloc_map(alloc_map(view, "n1")))
    print(f"gpu_alloc_map, {what}: {map_ms:.1f} ms (goal 50 ms)")
    print(f"the same with the jobs of each device: {median_ms(lambda: held_devices(view, 'n1')):.1f} ms (goal 50 ms)")


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


def median_ms(call: Callable[[], object]) -> float:
    times_ms = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        times_ms.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times_ms)


if __name__ == "__main__":
    main()
