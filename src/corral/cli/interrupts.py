"""Signals to a command that stands and waits are heeded, whenever they come."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_INTERVAL_S = 0.5


@contextmanager
def interruptible() -> Iterator[None]:
    """Within it, Python's handlers run at most half a second late; call it in the main thread.

    They run between two steps of the main thread. A signal that comes just before a read that blocks, or to another
    thread, would be heeded only when that read returns, which for the output of a silent job is its end. A timer that
    does nothing interrupts the read.
    """
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, _INTERVAL_S, _INTERVAL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
