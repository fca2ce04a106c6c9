"""A server whose ledger has 100,000 finished and 10,000 waiting jobs: what it takes to boot, list, explain, end
and decide.

`python -m bench.crowded` prints each figure beside its goal. Times are the client's, over the Unix socket.
"""

import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bench.ledger import FINISHED, WAITING, ended, new_jobs, started
from bench.server import RunningServer, throw_away
from corral.client import Client
from corral.core.ledger.store import open_ledger
from corral.core.model.errors import CorralError
from corral.core.model.fact import Fact, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.ports.ledger import Decided, Ledger
from corral.core.scheduling.planner import Planner
from tests.core.control.strategies import box

REPEATS = 20
LISTINGS = 20
GOAL_MS = 100


def main() -> None:
    with throw_away(prepare=fill) as server, Client(server.home) as client:
        print(f"ready with {FINISHED:,} finished and {WAITING:,} waiting jobs after {server.ready_s:.2f} s (goal 5 s)")
        time.sleep(3.0)
        newest = client.jobs.list(limit=1)[0].id
        report("ps, first 100 rows", lambda: client.jobs.list(limit=100))
        report("ps --all, first 100 rows", lambda: client.jobs.list(all=True, limit=100))
        report("why of the last in line", lambda: client.jobs.why(newest))
        report("all that wait, with expected starts", lambda: client.jobs.list(limit=None, starts=True), goal_ms=1000)
        stop_beside_listings(server)
    cycle()


def _commit(ledger: Ledger, facts: Iterable[Fact]) -> None:
    decided = Decided(tuple(facts), None)
    ledger.commit(lambda _: decided).result()


def fill(home: Path) -> None:
    """Write the jobs straight into the server's ledger. The waiting ones are held back by nothing but the devices."""
    ledger = open_ledger(f"sqlite:///{home / 'ledger.db'}")
    for _ in range(FINISHED // 1_000):
        jobs = new_jobs(ledger, 1_000)
        facts = [
            fact
            for job in jobs
            for fact in (JobSubmitted(job, at=job.submitted_at, by="alice"), *started(job), *ended(job))
        ]
        _commit(ledger, facts)
    for _ in range(WAITING // 1_000):
        facts = [JobSubmitted(hard(job), at=job.submitted_at, by="alice") for job in new_jobs(ledger, 1_000)]
        _commit(ledger, facts)
    ledger.close()


def hard(job: Job) -> Job:
    """The job, asking for more than the machine has, so that it goes on waiting."""
    return replace(job, spec=replace(job.spec, request=Request(devices=100 + job.sequence % 50)))


def stop_beside_listings(server: RunningServer) -> None:
    """How soon the server ends while many ask for all that waits."""
    askers = [threading.Thread(target=_ask_for_all, args=(server.home,), daemon=True) for _ in range(LISTINGS)]
    for asker in askers:
        asker.start()
    time.sleep(0.5)
    began = time.perf_counter()
    os.kill(server.pid, signal.SIGTERM)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    print(f"ends {time.perf_counter() - began:.1f} s after SIGTERM, while {LISTINGS} ask for all that waits (goal 3 s)")
    for asker in askers:
        asker.join()


def _ask_for_all(home: Path) -> None:
    with Client(home) as client, suppress(CorralError):
        client.jobs.list(limit=None, starts=True)


def report(what: str, wanted: Callable[[], object], goal_ms: float = GOAL_MS) -> None:
    times_ms = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        wanted()
        times_ms.append((time.perf_counter() - began) * 1e3)
    print(f"{what}: median {statistics.median(times_ms):.1f} ms, longest {max(times_ms):.1f} ms (goal {goal_ms} ms)")


def cycle() -> None:
    """One scheduling cycle over as many waiting jobs, by itself: after a change, and with 50 shapes of request."""
    jobs = []
    for n in range(WAITING):
        request = Request(devices=1 + n % 8, min_memory_mib=1 + n % 6)
        jobs.append(Job(str(n), n, JobSpec(f"user{n % 20}", ("true",), request=request), 0.0))
    full = box(8)
    planner = Planner(full.advance([JobSubmitted(job, at=0.0, by="alice") for job in jobs]))
    planner.plan(1.0)
    times_ms = []
    for step in range(REPEATS):
        planner.advance([NodeObserved(full.nodes["box"])])
        began = time.perf_counter()
        planner.plan(2.0 + step)
        times_ms.append((time.perf_counter() - began) * 1e3)
    print(f"a cycle over {WAITING:,} waiting jobs: median {statistics.median(times_ms):.1f} ms (goal {GOAL_MS} ms)")


if __name__ == "__main__":
    main()
