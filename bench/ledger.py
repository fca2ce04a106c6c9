"""The ledger by itself: durable submits one by one and in a batch, pages and boot with many jobs.

`python -m bench.ledger` prints each figure beside what a prototype or the goal says.
"""

import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.fact import AllocationEnded, AllocationMade, Fact, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.run_history import UsageBy
from corral.core.ports.ledger import Decided, JobQuery
from corral.features.accounting.gpu_hours import usage
from corral.features.feature_list import slices

CLIENTS = 8
SUBMITS_A_CLIENT = 1_000
FINISHED = 100_000
WAITING = 10_000
ENV = tuple((f"VARIABLE_{i}", f"/some/value/of/it/number/{i}") for i in range(60))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
        url = f"sqlite:///{Path(home) / 'ledger.db'}"
        ledger = open_ledger(url, slices=slices())
        one_by_one(ledger)
        in_a_batch(ledger)
        job_lives(ledger)
        ledger.close()
        with_many_jobs(f"sqlite:///{Path(home) / 'many.db'}")


def new_jobs(ledger: SqlLedger, count: int, number: int = 0) -> list[Job]:
    spec = JobSpec(user="alice", command=("python", "train.py", f"--seed={number}"), workdir="/home/alice", env=ENV)
    return [Job(job_id, int(job_id), spec, time.time()) for job_id in ledger.next_ids(count)]


def submit(ledger: SqlLedger, jobs: Sequence[Job]) -> None:
    facts = tuple(JobSubmitted(job, at=job.submitted_at, by="alice") for job in jobs)
    ledger.commit(lambda view: Decided(facts, None)).result()


def one_by_one(ledger: SqlLedger) -> None:
    times: list[float] = []

    def client() -> None:
        for number in range(SUBMITS_A_CLIENT):
            began = time.perf_counter()
            submit(ledger, new_jobs(ledger, 1, number))
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = len(times) / (time.perf_counter() - began)
    times.sort()
    p99_ms = times[len(times) * 99 // 100] * 1e3
    print(f"durable submits, {CLIENTS} threads: {rate:,.0f}/s, p50 {times[len(times) // 2] * 1e3:.1f} ms, "
          f"p99 {p99_ms:.1f} ms (prototype, over HTTP: 3,200 to 3,900/s, p99 4 to 6 ms)")  # fmt: skip


def in_a_batch(ledger: SqlLedger) -> None:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        submit(ledger, new_jobs(ledger, 1_000))
        times.append((time.perf_counter() - began) * 1e3)
    print(f"1,000 submits in one batch: {min(times):.0f} to {max(times):.0f} ms (goal, over HTTP: 60 ms)")


def job_lives(ledger: SqlLedger) -> None:
    """Submit, start and end, a commit each, one job after another."""
    count = 300
    began = time.perf_counter()
    for job in [new_jobs(ledger, 1)[0] for _ in range(count)]:
        submit(ledger, [job])
        for facts in (started(job), ended(job)):
            ledger.commit(lambda view, facts=facts: Decided(facts, None)).result()  # type: ignore[misc]
    print(f"job lives of 3 commits, one after another: {count / (time.perf_counter() - began):,.0f}/s (goal: 300/s)")


def started(job: Job) -> tuple[Fact, ...]:
    now = time.time()
    placement = Placement((Member("node", (Grant(f"GPU-{job.sequence % 8}", 1000),)),))
    return (
        AllocationMade(Allocation(f"{job.id}.1", job.id, job.spec.user, placement, now), at=now, by="test"),
        JobChanged(
            job.id,
            {"phase": Phase.RUNNING, "launches": 1, "devices": placement.uuids, "started_at": now},
            at=now,
            by="test",
        ),
    )


def ended(job: Job) -> tuple[Fact, ...]:
    now = time.time()
    return (
        AllocationEnded(f"{job.id}.1", job.id, at=now, by="test"),
        JobChanged(job.id, {"phase": Phase.SUCCEEDED, "exit_code": 0, "ended_at": now}, at=now, by="test"),
    )


def with_many_jobs(url: str) -> None:
    ledger = open_ledger(url, slices=slices())
    for start in range(0, FINISHED, 1_000):
        jobs = new_jobs(ledger, 1_000, start)
        facts = [
            fact
            for job in jobs
            for fact in (JobSubmitted(job, at=job.submitted_at, by="alice"), *started(job), *ended(job))
        ]
        ledger.commit(lambda view, facts=tuple(facts): Decided(facts, None)).result()  # type: ignore[misc]
    for _ in range(WAITING // 1_000):
        submit(ledger, new_jobs(ledger, 1_000))
    ledger.close()

    began = time.perf_counter()
    ledger = open_ledger(url, slices=slices())
    boot_s = time.perf_counter() - began
    print(f"boot with {FINISHED:,} finished and {WAITING:,} waiting jobs: {boot_s:.2f} s (goal, the whole server: 5 s)")
    for what, query in (
        ("all", JobQuery(limit=100)),
        ("of a user", JobQuery(users=("alice",), limit=100)),
        ("finished", JobQuery(phases=(Phase.SUCCEEDED,), limit=100)),
        ("active", JobQuery(phases=tuple(phase for phase in Phase if not phase.terminal), limit=100)),
        ("failed, none there", JobQuery(phases=(Phase.FAILED,), limit=100)),
        ("from the middle", JobQuery(limit=100, before_sequence=50_000)),
    ):
        began = time.perf_counter()
        found = len(ledger.jobs(query))
        took_ms = (time.perf_counter() - began) * 1e3
        print(f"first 100 jobs, {what}: {took_ms:.1f} ms for {found} rows (goal, the whole server: 100 ms)")
    began = time.perf_counter()
    usage(ledger.allocated(0.0, time.time()), UsageBy.USER)
    print(f"GPU-hours of {FINISHED:,} allocations: {(time.perf_counter() - began) * 1e3:.0f} ms")
    ledger.close()


if __name__ == "__main__":
    main()
