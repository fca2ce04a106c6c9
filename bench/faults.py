"""Lives of servers under faults, each from a seed of its own, and how many promises were broken: there is to be none.

`python -m bench.faults [LIVES]` lives 2,000 lives over simulated nodes, or as many as it can in ten minutes.
"""

import logging
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from corral.sim.life import simulate

LIVES = 2_000
AT_MOST_S = 600.0
NODES, GPUS, JOBS = 3, 2, 16
AT_ONCE = 40
"""So many lives are begun between two looks at the clock."""


def main() -> None:
    lives = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else LIVES
    events: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    broken: list[str] = []
    lived = 0
    began = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count(), initializer=_silence) as pool:
        while lived < lives and time.monotonic() - began < AT_MOST_S:
            seeds = range(lived, min(lives, lived + AT_ONCE))
            for report in pool.map(_live, seeds):
                events.update(report["events"])
                ended.update(report["ended"])
                broken += [f"seed {report['seed']}: {sentence}" for sentence in report["broken"]]
            lived += len(seeds)
    print(f"{lived:,} lives of {NODES} nodes with {GPUS} GPUs each and {JOBS} jobs or more, "
          f"in {time.monotonic() - began:.0f} s")  # fmt: skip
    print(f"  events: {_listed(events)}")
    print(f"  jobs ended: {_listed(ended)}")
    print(f"  promises broken: {len(broken)} (goal 0)")
    for sentence in broken:
        print(f"    {sentence}")


def _live(seed: int) -> dict[str, Any]:
    try:
        return simulate(nodes=NODES, gpus=GPUS, jobs=JOBS, seed=seed)
    except AssertionError as error:
        return {"seed": seed, "events": {}, "ended": {}, "broken": [str(error)]}


def _silence() -> None:
    """What a server logs of faults would fill the screen."""
    logging.disable(logging.CRITICAL)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    main()
