"""How fast this machine is now: four small figures beside which every other figure of the same run is to be read.

`python -m bench.probe`; `python -m bench` begins each run with it. Figures of two machines, or of two hours, compare as
far as their probes do.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable

import numpy as np

ROUNDS = 5
LOOP = 200_000
CALLS = 20_000
PROCESSES = 20
SYNCS = 20


def main() -> None:
    print(line())


def line() -> str:
    """The probe's figures, each the median of `ROUNDS` rounds."""
    return (
        f"machine: pure Python {LOOP / _median_s(_pure_python) / 1e6:.1f} M loops/s, "
        f"NumPy {_median_s(_small_arrays) / CALLS * 1e6:.2f} us a call on 64 numbers, "
        f"fork and exec {_median_s(_processes) / PROCESSES * 1e3:.2f} ms, "
        f"fsync {_median_s(_syncs) / SYNCS * 1e3:.2f} ms"
    )


def _median_s(work: Callable[[], None]) -> float:
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return sorted(times)[ROUNDS // 2]


def _pure_python() -> None:
    total, seen = 0, {}
    for number in range(LOOP):
        total += number & 7
        seen[number & 255] = total


def _small_arrays() -> None:
    row, out = np.arange(64), np.empty(64, dtype=np.int64)
    for _ in range(CALLS):
        np.add(row, 1, out=out)


def _processes() -> None:
    for _ in range(PROCESSES):
        subprocess.run(["/bin/true"], check=True)


def _syncs() -> None:
    # Where a server's home would be, which is no file system in memory.
    with tempfile.TemporaryFile(dir=os.path.expanduser("~")) as file:
        for _ in range(SYNCS):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())


if __name__ == "__main__":
    main()
