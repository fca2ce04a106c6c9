"""Lets a command that waits react to signals within half a second."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_INTERVAL_S = 0.5


@contextmanager
def interruptible() -> Iterator[None]:
    """While this is active, Python's signal handlers run at most half a second late. Call it in the main thread.

    Python runs them between two steps of the main thread. If a signal comes just before a read that blocks, or to
    another thread, its handler runs only when that read returns; for the output of a silent job that is when the job
    ends. A timer that does nothing interrupts the read.
    """
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, _INTERVAL_S, _INTERVAL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
