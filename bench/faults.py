"""Lives of servers under faults, each from a seed of its own, and how many promises were broken: there is to be none.

`python -m bench.faults [LIVES]` lives 2,000 lives over simulated nodes, `python -m bench.faults --agents [LIVES]` 50
with real agents and processes; or as many as it can in ten minutes. `python -m bench.faults LIVES SEED` begins at that
seed, to go on where the ten minutes ended.
"""

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from corral.core.model.errors import CorralError
from corral.sim.faults.life import simulate
from tests.e2e.agent_life import AgentLife

LIVES = 2_000
LIVES_WITH_AGENTS = 50
AT_MOST_S = 600.0
NODES, GPUS, JOBS = 3, 2, 10


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    with_agents = "--agents" in sys.argv
    usual = LIVES_WITH_AGENTS if with_agents else LIVES
    lives, first = [*numbers, *[usual, 0][len(numbers) :]]
    seeds = range(first, first + lives)
    if with_agents:
        _report("with real agents", _live_with_agents, seeds, at_once=os.cpu_count() or 1)
    else:
        kind = f"of {NODES} simulated nodes with {GPUS} GPUs each, {JOBS} jobs or more"
        _report(kind, _live, seeds, at_once=40)


def _report(kind: str, live: Callable[[int], dict[str, Any]], seeds: range, *, at_once: int) -> None:
    """Live the lives, so many between two looks at the clock, and print what happened."""
    events: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    broken: list[str] = []
    lived = 0
    began = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count(), initializer=_silence) as pool:
        while lived < len(seeds) and time.monotonic() - began < AT_MOST_S:
            next_seeds = seeds[lived : lived + at_once]
            for report in pool.map(live, next_seeds):
                events.update(report["events"])
                ended.update(report["ended"])
                broken += [f"seed {report['seed']}: {sentence}" for sentence in report["guarantees_broken"]]
            lived += len(next_seeds)
    print(
        f"{lived:,} lives {kind}, seeds {seeds.start} to {seeds.start + lived - 1}, in {time.monotonic() - began:.0f} s"
    )
    print(f"  events: {_listed(events)}")
    print(f"  jobs ended: {_listed(ended)}")
    print(f"  promises broken: {len(broken)} (goal 0)")
    for sentence in broken:
        print(f"    {sentence}")


def _live(seed: int) -> dict[str, Any]:
    try:
        return simulate(nodes=NODES, gpus=GPUS, jobs=JOBS, seed=seed)
    except AssertionError as error:
        return {"seed": seed, "events": {}, "ended": {}, "guarantees_broken": [str(error)]}


def _live_with_agents(seed: int) -> dict[str, Any]:
    life = AgentLife(seed)
    try:
        broken = life.live()
    except (AssertionError, CorralError) as error:
        broken = [str(error)]
    return {"seed": seed, "events": life.events, "ended": life.ended, "guarantees_broken": broken}


def _silence() -> None:
    """What a server logs of faults would fill the screen."""
    logging.disable(logging.CRITICAL)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    main()
