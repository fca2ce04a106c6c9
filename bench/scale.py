"""How fast placements are decided on a nearly full fleet, and what its size costs: `python -m bench.scale`."""

import time

import numpy as np

from corral.model.fit import NodeState, Slot
from corral.model.job import Request
from corral.scheduling.columns import Columns, NodeRow
from corral.scheduling.learn import Learner
from corral.scheduling.place import Placer
from corral.scheduling.value import Value
from corral.sim.scale import run_scale

GPUS_PER_NODE = 8
GANG_NODES, GANGS = 5_000, 1_500


def main() -> None:
    small = run_scale(nodes=1_250, gpus_per_node=GPUS_PER_NODE, jobs=10_000)
    large = run_scale(nodes=12_500, gpus_per_node=GPUS_PER_NODE, jobs=100_000)
    print(
        f"12,500 nodes x 8 GPUs: {large['decisions_per_s']:,.0f} decisions/s (goal 10,000), "
        f"p99 {large['decision_ms']['p99']:.2f} ms (goal 5), {large['peak_mib']:.0f} MiB (goal 600)"
    )
    growth = large["decision_ms"]["p50"] / small["decision_ms"]["p50"]
    print(f"a fleet ten times as large: a decision takes x{growth:.2f} (goal: less than x2)")
    print(f"gangs of 2 to 32 members on 5,000 nodes: {gangs_per_s():,.0f} gangs/s (goal 1,000)")


def gangs_per_s() -> float:
    """Place and hand out gangs on an empty fleet."""
    slot = Slot("G3", None, None, 1000, None)
    state = NodeState((slot,) * GPUS_PER_NODE, 128_000, 786_432)
    columns = Columns(
        [NodeRow(f"n{i:05}", tuple(f"g{i}-{j}" for j in range(GPUS_PER_NODE)), state) for i in range(GANG_NODES)]
    )
    placer = Placer(columns, Value(columns, Learner(columns).settle()))
    sizes = np.random.default_rng(7).integers(2, 33, GANGS).tolist()
    began = time.perf_counter()
    for size in sizes:
        found = placer.place(Request(gang_size=size, cpu_milli=8_000))
        for taking in found or ():
            columns.take(taking)
    return GANGS / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
