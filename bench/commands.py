"""What a command costs beside a bare interpreter, as whole processes in turn on a server of 8 described GPUs.

`python -m bench commands` prints wall and CPU time as multiples of `python -c pass` in the same run.
"""

import os
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.server import throw_away

ROUNDS = 30
BARE = "python -c pass"

GOALS = {
    "--version": 3,
    "submit -- true": 3,
    "submit --gpus 2 --time 2h --env A=b -- true": 3,
    "ps --json": 3,
    "status --json": 3,
    "why 1 --json": 3,
    "cancel 1": 3,
    "wait 1": 3,
    "logs 1": 3,
    "ps": 5,
    "status": 5,
    "why 1": 5,
    "submit {script}": 5,
    "submit --array 0-3 -- true": 5,
    "show 1": 5,
    "queues": 5,
    "nodes": 5,
}
"""Command lines, and how many starts of a bare interpreter each may cost."""


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float


def main() -> None:
    with throw_away() as server:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("CORRAL_")}
        environ |= {"CORRAL_HOME": str(server.home)}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each start would compile everything anew
        script = server.home / "job.sh"
        script.write_text("#!/bin/sh\n#CORRAL --gpus 0\ntrue\n")
        corral = str(Path(sys.executable).with_name("corral"))
        lines = {line: [corral, *line.format(script=script).split()] for line in GOALS}
        for words in ([corral, "submit", "--gpus", "0", "--", "echo", "done"], [corral, "wait", "1"]):
            _cost(words, environ)
        costs = _in_turn({BARE: [sys.executable, "-c", "pass"], **lines}, environ)
    bare = costs.pop(BARE)
    print(f"{BARE}: wall {bare.wall_s * 1e3:.1f} ms, CPU {bare.cpu_s * 1e3:.1f} ms (medians of {ROUNDS})")
    for line, cost in costs.items():
        wall, cpu = cost.wall_s / bare.wall_s, cost.cpu_s / bare.cpu_s
        print(f"corral {line:45} wall {wall:5.2f} x, CPU {cpu:5.2f} x (goal {GOALS[line]} x)")


def _in_turn(commands: dict[str, list[str]], environ: dict[str, str]) -> dict[str, Cost]:
    """The median cost of each; all take turns, so that what else the machine does meets all alike."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, words in commands.items():
            costs[name].append(_cost(words, environ))
    return {name: Cost(*map(statistics.median, zip(*each, strict=True))) for name, each in costs.items()}


def _cost(words: list[str], environ: dict[str, str]) -> Cost:
    """Of one process with all that it waits for, its output thrown away."""
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    began = time.perf_counter()
    _, _, used = os.wait4(os.posix_spawn(words[0], words, environ, file_actions=quiet), 0)
    return Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    main()
