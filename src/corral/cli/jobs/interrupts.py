"""Let a waiting command react to signals within half a second, and write all bytes all the same."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_INTERVAL_S = 0.5


@contextmanager
def interruptible() -> Iterator[None]:
    """While the context lasts, Python's signal handlers run at most half a second late. Use it in the main thread.

    Python runs handlers between two steps of the main thread. If a signal arrives just before a blocking read, or in
    another thread, its handler runs only when the read returns. For the output of a silent job, that is the job's end.
    A timer that does nothing interrupts the read.
    """
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, _INTERVAL_S, _INTERVAL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


STDOUT, STDERR = 1, 2


def pass_on(descriptor: int, data: bytes) -> None:
    """Write all of `data` to a descriptor.

    A buffered writer of Python may lose bytes if a signal interrupts it in the middle of a large write.
    """
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
