"""Orders and backfill on lublin_256, and mixed models after Gavel, beside published figures.

Reads CORRAL_BENCH_DATA. `python -m bench.queues all` adds the slow ones: some five minutes.
"""

import os
import sys
from pathlib import Path

from corral.sim.benchmarks import gavel, swf

WINDOWS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
CLUSTER = {"v100": 36, "p100": 36, "k80": 36}

QUICK = (
    ("fcfs", "none", "7273.77 exactly, longest wait 672,302 s"),
    ("saf", "none", "26.95 re-sorted, the best known"),
    ("slowdown", "none", "26.95"),
    ("fcfs", "easy", "271.40 by an independent program"),
    ("corral", "easy", "learned 58.64, SAF 34.4; longest wait at most FCFS's 672,302 s"),
)
SLOW = (("fcfs", "conservative", "nobody publishes it"),)
MIXED = (
    ("fifo", 1.0, "published code run again: 20.05"),
    ("fifo", 2.0, "published code run again: 34.0"),
    ("corral", 1.0, "heterogeneity-aware LAS 18.54"),
)
SLOW_MIXED = (("corral", 2.0, "21.90"), ("corral", 2.4, "30.03"))


def main(*, everything: bool = False) -> None:
    if "CORRAL_BENCH_DATA" not in os.environ:
        print("CORRAL_BENCH_DATA is not set: the traces are not at hand")
        return
    data = Path(os.environ["CORRAL_BENCH_DATA"])
    trace = swf.read_trace(data / "swf" / "lublin_256.swf")
    for order, backfill, anchor in (
        *QUICK,
        *((("fcfs", "conservative", "nobody publishes it"),) if everything else ()),
    ):
        found = swf.simulate(trace, processors=256, windows=WINDOWS, jobs=1024, order=order, backfill=backfill)
        starts = found["expected_start"]
        print(
            f"lublin, {order}, {backfill}: mean bounded slowdown {found['mean_bounded_slowdown']} ({anchor}), "
            f"longest wait {found['max_wait_s']:,.0f} s, told {starts['told']} starts, "
            f"{starts['exact']} to the second, {found['wall_s']} s",
            flush=True,
        )
    jobs = gavel.read_trace(data / "gavel" / "multi_seed0.csv")
    for policy, rate, anchor in (*MIXED, *(SLOW_MIXED if everything else ())):
        found = gavel.simulate(jobs, rate=rate, cluster=CLUSTER, policy=policy, measure=(4000, 4999))
        print(
            f"gavel, {policy}, {rate} jobs/h: {found['mean_jct_h']} h ({anchor}), {found['starts']:,} starts, "
            f"{found['wall_s']} s",
            flush=True,
        )


if __name__ == "__main__":
    main(everything=sys.argv[1:] == ["all"])
