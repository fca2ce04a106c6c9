"""A program that writes a ledger and dies of SIGKILL; crash tests run it by `python -m tests.core.ledger.crashing`.

`steps HOME`: runs one history over and over, each time in a process and directory of its own (HOME/1, HOME/2, ...),
killed at the Nth step towards the disk: a statement, a commit, a publication. Stops when N is past the end.
`traffic HOME`: four threads write until somebody kills the process.

What was promised to a caller is noted in HOME/.../promises with a bare write, which outlives the process.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.fact import JobChanged
from corral.core.model.jobs.phase import Phase
from corral.features.feature_list import slices
from tests.core.ledger.making import a_job, ended, given_back, made, submitted, url_of, write


class Promises:
    def __init__(self, home: Path) -> None:
        self._file = os.open(home / "promises", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, *words: str) -> None:
        os.write(self._file, (" ".join(words) + "\n").encode())


def a_life(ledger: SqlLedger, promises: Promises) -> None:
    """Two jobs submitted together; the first runs to its end, of which its user is to be told."""
    ids = ledger.next_ids(2)
    promises.note("given", *ids)
    write(ledger, *(submitted(a_job(int(job_id), notify="mail me")) for job_id in ids))
    promises.note("submitted", *ids)
    job_id = ids[0]
    write(ledger, made(job_id, f"GPU-{job_id}"), JobChanged(job_id, {"phase": Phase.RUNNING}, at=2000.0, by="test"))
    promises.note("running", job_id)
    write(ledger, given_back(job_id), ended(job_id))
    promises.note("ended", job_id)


def die_at(step: int) -> Any:
    """A hook that counts, and at its `step`th call is the last thing this process does."""
    lock, taken = threading.Lock(), 0

    def hook(*_args: Any, **_named: Any) -> None:
        nonlocal taken
        with lock:
            taken += 1
            if taken == step:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


def one_history(home: Path, step: int) -> None:
    home.mkdir()
    promises = Promises(home)
    hook = die_at(step)
    event.listen(Engine, "before_cursor_execute", hook)
    event.listen(Engine, "commit", hook)
    ledger = open_ledger(url_of(home), slices=slices())
    ledger.subscribe(hook)
    a_life(ledger, promises)
    ledger.close()


def steps(home: Path) -> None:
    step, status = 0, -1
    while status != 0:
        step += 1
        child = os.fork()
        if child == 0:
            one_history(home / str(step), step)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL), f"step {step} ended with status {status}"


def traffic(home: Path) -> None:
    ledger, promises = open_ledger(url_of(home), slices=slices()), Promises(home)

    def client() -> None:
        while True:
            a_life(ledger, promises)

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    {"steps": steps, "traffic": traffic}[sys.argv[1]](Path(sys.argv[2]))
