"""How full openb's cluster gets: each policy beside what its authors, or FGD, reach.

`python -m bench.openb` replays the trace that comes with Corral; `python -m bench.openb all` every trace that lies in
CORRAL_BENCH_DATA, in the order of ten seeds, and three of them in the files' own order: some ten minutes.
"""

import os
import statistics
import sys
from pathlib import Path

from corral.sim.benchmarks.openb import replay, run_openb, shipped_trace

ANCHOR_MILLI = {"best-fit": 5_785_450, "fgd": 5_919_410}
FGD_PCT = {
    "default": 95.23,
    "cpu250": 93.20,
    "gpushare40": 93.96,
    "gpushare100": 86.64,
    "multigpu20": 95.53,
    "gpuspec10": 94.66,
    "gpuspec33": 87.84,
}
FGD_FILE_PCT = {"default": 94.62, "gpuspec33": 87.23, "gpushare100": 74.80}
SEEDS, FILE_SEEDS = range(42, 52), range(42, 45)


def main() -> None:
    for policy in ("best-fit", "fgd", "corral"):
        found = replay(shipped_trace(), policy)
        anchor = f"{ANCHOR_MILLI[policy]:,} exactly" if policy in ANCHOR_MILLI else "FGD 5,919,410"
        print(
            f"{policy}, default, seed 42: {found['allocated_milli']:,} milli-GPU ({anchor}), "
            f"{found['allocation_pct']['100']:.2f} % at 100 % arrived, {found['wall_s']:.2f} s, "
            f"a decision {found['decision_ms']['p50']:.3f} ms, p99 {found['decision_ms']['p99']:.3f} ms"
        )


def every_trace(data: Path) -> None:
    """Means over seeds at 100 % arrived, beside FGD's."""
    for trace, fgd_pct in FGD_PCT.items():
        report(data, trace, "sequence", SEEDS, fgd_pct)
    for trace, fgd_pct in FGD_FILE_PCT.items():
        report(data, trace, "file", FILE_SEEDS, fgd_pct)


def report(data: Path, trace: str, arrivals: str, seeds: range, fgd_pct: float) -> None:
    reached = [
        run_openb(
            data / "openb/csv/openb_node_list_gpu_node.csv",
            data / f"openb/csv/openb_pod_list_{trace}.csv",
            data / f"openb/sequences/{trace}.json.gz",
            seed=seed,
            arrivals=arrivals,
        )["allocation_pct"]["100"]
        for seed in seeds
    ]
    mean = statistics.mean(reached)
    print(f"corral, {trace}, {arrivals}: {mean:.2f} % (worst {min(reached):.2f}), FGD {fgd_pct:.2f} %", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["all"]:
        every_trace(Path(os.environ["CORRAL_BENCH_DATA"]))
    else:
        main()
