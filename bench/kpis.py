"""Key figures of a year of 1,000 devices and 100,000 jobs: how long they take, and what others wait meanwhile.

`python -m bench.kpis` prints each figure beside its goal.
"""

import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from corral.clock import ManualClock
from corral.core.control.metrics.request_counts import RequestCounts
from corral.core.ledger.store import open_ledger
from corral.core.model.devices.group_use import POOL, GroupUse, KpiBy
from corral.core.model.view import View
from corral.features.history.key_figures import KeyFigures
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.group_use import GroupUseRecorder
from corral.features.history.recording.group_use_table import GroupUseTable

NODES, USERS, JOBS, HOURS = 125, 100, 100_000, 365 * 24
NOW = 1_700_000_000 // 3600 * 3600
BEGIN = NOW - HOURS * 3600
TICK_S = 0.001


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
        ledger = open_ledger(f"sqlite:///{home}/ledger.db")
        file, clock = HistoryFile(Path(home) / "history.db"), ManualClock(float(NOW))
        recorder = GroupUseRecorder(GroupUseTable(file), View, dict, clock, 5.0)
        recorder.of_kind(POOL, 0, 1)
        fill(Path(home))
        figures = KeyFigures(ledger, recorder, RequestCounts(), clock)
        for by in (None, KpiBy.USER, KpiBy.NODE):
            told(figures, by, NOW - 86_400, "a day")
            told(figures, by, BEGIN, "a year")
        file.close()
        ledger.close()


def fill(home: Path) -> None:
    """Hours of a year of the pool, of each node and of each user, minutes of a day, and jobs that ended in the year."""
    kinds = ((POOL, [""]), ("node", [f"node-{n}" for n in range(NODES)]), ("user", [f"user{n}" for n in range(USERS)]))
    sums = GroupUse(*(1000.0 + number for number in range(len(GroupUse._fields))))

    def use() -> Iterator[tuple[object, ...]]:
        for step_s, first in ((3600, BEGIN), (60, NOW - 86_400)):
            for kind, names in kinds:
                for start in range(first, NOW, step_s):
                    yield from ((step_s, kind, start, name, *sums) for name in names)

    with closing(sqlite3.connect(home / "history.db")) as connection, connection:
        connection.executemany(f"INSERT INTO group_use VALUES ({', '.join('?' * (4 + len(sums)))})", use())
    state, spec = '{"waited": [["Resources", 30.0], ["Held", 5.0]]}', '{"queue": "night", "project": "sft"}'
    jobs, held = [], []
    for number in range(JOBS):
        end, user = BEGIN + (NOW - BEGIN) * number / JOBS, f"user{number % USERS}"
        phase = "FAILED" if number % 10 == 0 else "SUCCEEDED"
        placement = (
            f'{{"members": [{{"node": "node-{number % NODES}", "grants": [{{"uuid": "GPU-{number % 1000}"}}]}}]}}'
        )
        jobs.append((number, str(number), user, phase, end - 900, end - 600, end, state, spec))
        held.append((number, f"{number}.1", str(number), user, end - 602, end, placement))
    with closing(sqlite3.connect(home / "ledger.db")) as connection, connection:
        connection.executemany(
            "INSERT INTO jobs (sequence, id, user, name, phase, submitted_at, started_at, ended_at, state, spec) "
            "VALUES (?, ?, ?, '', ?, ?, ?, ?, ?, ?)",
            jobs,
        )
        connection.executemany(
            "INSERT INTO allocations (entry, id, job_id, user, attempt, reserved, created_at, ended_at, placement, "
            "gpu_milli) VALUES (?, ?, ?, ?, 1, 0, ?, ?, ?, 1000)",
            held,
        )


def told(figures: KeyFigures, by: KpiBy | None, start: int, span: str) -> None:
    """Ask while another thread wants to do something each millisecond, as an event loop does."""
    late_s, done = [0.0], threading.Event()

    def tick() -> None:
        while not done.is_set():
            began = time.perf_counter()
            time.sleep(TICK_S)
            late_s.append(time.perf_counter() - began - TICK_S)

    other = threading.Thread(target=tick)
    other.start()
    began, busy = time.perf_counter(), time.process_time()
    found = figures.kpis(by, start=start, end=NOW)
    took_s, used_s = time.perf_counter() - began, time.process_time() - busy
    done.set()
    other.join()
    late_s.sort()
    usual_s, worst_s = late_s[len(late_s) * 99 // 100], late_s[-1]
    print(f"key figures of {span} by {by or 'nothing'}, {len(found.rows)} rows: {took_s * 1e3:.0f} ms, "
          f"{used_s * 1e3:.0f} ms of CPU; another thread is late by {usual_s * 1e3:.1f} ms in 99 % of its turns "
          f"at most, by {worst_s * 1e3:.0f} ms at worst")  # fmt: skip


if __name__ == "__main__":
    main()
