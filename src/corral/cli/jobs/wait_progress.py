"""Show on standard error how many of the awaited jobs have ended."""

import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from corral.cli.tables.progress import ProgressLine
from corral.client import Client, JobRow, WaitTimedOut
from corral.core.model.errors import CorralError
from corral.core.model.units import format_duration

_INTERVAL_S = 1.0
_PART_OF_TIME = 0.05
"""The largest part of the time spent on requests: an array of 10,000 jobs takes the server longer than one job."""


class WaitProgress:
    """A line that a thread keeps up to date over its own connection. It is shown only on a terminal."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        self._line = ProgressLine()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="progress", daemon=True)
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._line.clear()

    def _tell(self) -> None:
        pause_s = _INTERVAL_S
        with Client() as client:
            while not self._stop.wait(pause_s):
                before = time.monotonic()
                try:
                    client.wait(self._ids, 0.0)
                except WaitTimedOut as unfinished:
                    self._show(unfinished.jobs)
                except CorralError:
                    pass  # the waiting code gets the same error, or waits for the server to come back
                pause_s = max(_INTERVAL_S, (time.monotonic() - before) / _PART_OF_TIME)

    def _show(self, jobs: Sequence[JobRow]) -> None:
        ended = sum(job.ended for job in jobs)
        waiting = sum(job.phase == "PENDING" for job in jobs)
        failed = sum(job.ended and not job.succeeded for job in jobs)
        parts = [f"{ended} of {len(jobs)} ended", *([f"{failed} failed"] if failed else [])]
        parts += [f"{len(jobs) - ended - waiting} run", f"{waiting} wait"]
        since = format_duration(time.monotonic() - self._began)
        self._line.show(ended, len(jobs), f"{', '.join(parts)}; {since}")
