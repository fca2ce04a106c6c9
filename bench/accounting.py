"""Reports over a year of 100,000 jobs: how long one takes, and how long it keeps another thread of the server waiting.

`python -m bench.accounting` prints each figure.
"""

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import insert

from corral.clock import ManualClock
from corral.core.ledger import tables
from corral.core.ledger.store import open_ledger
from corral.core.ledger.table_rows import allocation_row, job_row, spec_row
from corral.core.model.devices.price import Price
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, ChosenDevice, GpuInfo, Grant, Member, Placement
from corral.core.model.runs.run_history import MeteredHour, ReportBy, UsageBy
from corral.core.model.view import View
from corral.features.accounting.accounts import Accounts
from corral.features.accounting.gpu_reports import GpuReports
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.meter import Meter
from corral.features.history.recording.meter_table import MeterTable

JOBS = 100_000
DEVICES = 64
YEAR_H = 365 * 24
NOW_H = 480_000
BATCH = 10_000
ROUNDS = 2


def main() -> None:
    random.seed(1)
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
        path = Path(home)
        open_ledger(f"sqlite:///{path}/ledger.db").close()
        hours = a_year(path)
        ledger = open_ledger(f"sqlite:///{path}/ledger.db")
        clock = ManualClock(NOW_H * 3600.0)
        table = MeterTable(HistoryFile(path / "history.db"))
        meter = Meter(table, View, dict, clock, 1.0)
        reports = GpuReports(ledger, clock, meter, prices=(Price(2_000_000), Price(3_000_000, "H100")), currency="EUR")
        since = clock.now() - YEAR_H * 3600
        print(f"{JOBS:,} jobs on {DEVICES} devices in a year, {hours:,} metered hours")
        ask("usage --by user", lambda: Accounts(ledger, clock).usage(UsageBy.USER, since=since))
        for by in (["user"], ["project", "model"], ["job"], ["hour", "weekday"]):
            ask(f"report --by {','.join(by)}", lambda by=by: reports.report([ReportBy(one) for one in by], since=since))  # type: ignore[misc]
        ask("report --by user, a week", lambda: reports.report([ReportBy.USER]))
        ask("what a job made of its GPUs", lambda: reports.of_job(str(JOBS // 2)))
        ledger.close()


def a_year(home: Path) -> int:
    """Jobs of a few hours, a tenth of them tried three times, into ledger and meter. How many hours were metered."""
    ledger = open_ledger(f"sqlite:///{home}/ledger.db")
    table, written = MeterTable(HistoryFile(home / "history.db")), 0
    with ledger.database.writing() as connection:
        for first in range(1, JOBS + 1, BATCH):
            jobs = [a_job(number) for number in range(first, first + BATCH)]
            connection.execute(insert(tables.jobs), [job_row(job, spec_row(job.spec)) for job in jobs])
            held = [(job, allocation, end) for job in jobs for allocation, end in attempts(job)]
            rows = [
                allocation_row(allocation, job.sequence * 10 + allocation.attempt, end, job)
                for job, allocation, end in held
            ]
            connection.execute(insert(tables.allocations), rows)
            metered = [row for _, allocation, end in held for row in metered_of(allocation, end)]
            table.add(metered)
            written += len(metered)
    ledger.close()
    return written


def a_job(number: int) -> Job:
    spec = JobSpec(user=f"user{number % 50}", project=f"project{number % 10}", name=f"train-{number % 7}")
    launches = 1 if number % 10 else 3
    phase = Phase.FAILED if number % 12 == 0 else Phase.SUCCEEDED
    return Job(str(number), number, spec, 0.0, phase=phase, launches=launches)


def attempts(job: Job) -> Iterator[tuple[Allocation, float]]:
    begin = (NOW_H - YEAR_H + random.random() * (YEAR_H - 24)) * 3600
    for attempt in range(1, job.launches + 1):
        end = begin + random.expovariate(1 / 7200)
        first, count, milli = random.randrange(DEVICES), random.choice((1, 1, 1, 4)), random.choice((1000, 1000, 500))
        grants = tuple(Grant(f"GPU-{first // count * count + number:032x}", milli) for number in range(count))
        chosen = tuple(ChosenDevice(0, "NVIDIA H100 80GB HBM3", 80_000, 0, 1.0) for _ in grants)
        yield (
            Allocation(
                f"{job.id}.{attempt}", job.id, job.spec.user, Placement((Member("n", grants),)), begin, attempt,
                gpu_info=GpuInfo(len(grants), (), "corral", chosen),
            ),
            end,
        )  # fmt: skip
        begin = end + 1


def metered_of(allocation: Allocation, end: float) -> Iterator[MeteredHour]:
    for uuid in dict.fromkeys(allocation.placement.uuids):
        for hour in range(int(allocation.created_at // 3600), int(end // 3600) + 1):
            held_ms = int(1000 * (min(end, (hour + 1) * 3600) - max(allocation.created_at, hour * 3600)))
            yield MeteredHour(hour, allocation.id, uuid, held_ms * 6 // 10, held_ms * 3 // 10, held_ms * 300, 40_000)


def ask(what: str, call: Callable[[], object]) -> None:
    """Ask twice, beside a thread that wakes each millisecond as an event loop would."""
    times, cpu, gaps = [], [], [0.0]
    for _ in range(ROUNDS):
        done = threading.Event()
        waker = threading.Thread(target=_wake, args=(done, gaps))
        waker.start()
        began, used = time.perf_counter(), time.thread_time()
        call()
        times.append(time.perf_counter() - began)
        cpu.append(time.thread_time() - used)
        done.set()
        waker.join()
    print(f"{what}: {min(times):.2f} s, {min(cpu):.2f} s of CPU; another thread waits "
          f"{max(gaps) * 1e3:.0f} ms at most", flush=True)  # fmt: skip


def _wake(done: threading.Event, gaps: list[float]) -> None:
    last = time.perf_counter()
    while not done.is_set():
        time.sleep(0.001)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now


if __name__ == "__main__":
    main()
