"""Launching and killing through the process runtime alone: no server, no ledger.

`python -m bench.launch` prints each figure beside its goal, with cgroups where they can be written, then without.
It starts some 2,000 short processes of this user, and needs an otherwise idle machine to mean anything.
"""

import queue
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process.process_launches import LaunchState, ProcessLaunches
from corral.host.runtimes.process.records.launch_spec import LaunchSpec

LAUNCHES = 200
JOBS = 1_000
SLOTS = 64
ENV = {"PATH": "/usr/bin:/bin"} | {f"VARIABLE_{i}": "the value that it has" for i in range(30)}


def main() -> None:
    for use_cgroup in (True, False):
        with tempfile.TemporaryDirectory(prefix="corral-bench-") as home, opened(Path(home), use_cgroup) as bench:
            if use_cgroup and bench.runtime.means_of_killing != "cgroup":
                print("no cgroup v2 hierarchy here that this process may write")
                continue
            print(f"killing by {bench.runtime.means_of_killing}")
            bench.wait(bench.launch("true"))
            latency(bench)
            throughput(bench)
            memory(bench)
            for count, goal_ms in ((20, 25), (2_000, 300)):
                killing(bench, count, goal_ms)


class Bench:
    """A runtime, and the events that it tells."""

    def __init__(self, home: Path, use_cgroup: bool) -> None:
        self.events: queue.Queue[str] = queue.Queue()
        self._home = home
        self._count = 0
        self.runtime = ProcessLaunches(
            home, log_max_bytes=1 << 20, kill_grace_s=0.0, on_event=self.events.put, use_cgroup=use_cgroup
        )

    def launch(self, *argv: str) -> str:
        self._count += 1
        name = f"b{self._count}"
        log, scratch = str(self._home / "logs" / name), str(self._home / "scratch" / name)
        self.runtime.launch(LaunchSpec(name, name, argv, ENV, "/", log, scratch))
        return name

    def wait(self, name: str) -> LaunchState:
        while self.runtime.status(name).phase != LaunchPhase.EXITED:
            self.events.get(timeout=30)
        return self.runtime.status(name)


@contextmanager
def opened(home: Path, use_cgroup: bool) -> Iterator[Bench]:
    bench = Bench(home, use_cgroup)
    bench.runtime.start()
    try:
        yield bench
    finally:
        bench.runtime.close()


def latency(bench: Bench) -> None:
    taken_ms = []
    for _ in range(LAUNCHES):
        asked = time.time()
        state = bench.wait(bench.launch("true"))
        assert state.started_at is not None
        taken_ms.append(1e3 * (state.started_at - asked))
        time.sleep(0.005)
    taken_ms.sort()
    p50, p99 = (taken_ms[LAUNCHES * percent // 100] for percent in (50, 99))
    print(f"  request to running program: p50 {p50:.1f} ms, p99 {p99:.1f} ms (prototype p50 1.8 ms)")


def throughput(bench: Bench) -> None:
    left, running, began = JOBS, 0, time.perf_counter()
    ended = 0
    while ended < JOBS:
        while left and running < SLOTS:
            bench.launch("true")
            left, running = left - 1, running + 1
        name = bench.events.get(timeout=30)
        if bench.runtime.status(name).phase == LaunchPhase.EXITED:
            bench.runtime.forget(name)
            ended, running = ended + 1, running - 1
    rate = JOBS / (time.perf_counter() - began)
    print(
        f"  {JOBS:,} trivial jobs through {SLOTS} slots: {rate:.0f} jobs/s (prototype 490; goal 300 for all of Corral)"
    )


def memory(bench: Bench) -> None:
    name = bench.launch("sleep", "60")
    while (pid := bench.runtime.status(name).pid) is None:
        bench.events.get(timeout=30)
    supervisor = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    rollup = Path(f"/proc/{supervisor}/smaps_rollup").read_text().splitlines()
    private_kib = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    print(f"  private memory of a supervisor: {private_kib} KiB (goal 1,024; prototype 512)")
    bench.runtime.stop(name)
    bench.wait(name)


def killing(bench: Bench, count: int, goal_ms: int) -> None:
    name = bench.launch("sh", "-c", f"trap '' TERM; for i in $(seq {count}); do sleep 60 & done; wait")
    while len(bench.runtime.pids(name)) <= count:
        assert bench.runtime.status(name).phase != LaunchPhase.EXITED
        time.sleep(0.05)
    asked = time.perf_counter()
    bench.runtime.stop(name)
    bench.wait(name)
    print(f"  killing {count:,} descendants: {1e3 * (time.perf_counter() - asked):.0f} ms (goal {goal_ms})")


if __name__ == "__main__":
    main()
