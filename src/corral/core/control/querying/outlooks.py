"""The outlook of jobs by the ledger's view, computed once and reused while nothing changes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from corral.clock import Clock
from corral.core.ports.ledger import Ledger
from corral.core.scheduling.forecast import MakePlanner
from corral.core.scheduling.outlook import Outlook

KEPT_S = 5.0
"""The outlook of one view is reused for this long: time alone changes little, such as a job beyond its estimate."""


class Outlooks:
    """One outlook for all callers, computed on the thread of one of them. Thread-safe.

    However many callers ask while jobs come and go, only one outlook is computed at a time, and no caller waits for
    more than two.
    """

    def __init__(self, ledger: Ledger, clock: Clock, planner: MakePlanner) -> None:
        self._ledger = ledger
        self._clock = clock
        self._planner = planner
        self._turn = threading.Lock()
        self._kept: Outlook | None = None

    @contextmanager
    def current(self) -> Iterator[Outlook]:
        """A context with the outlook of the current view or of a newer view. Only one caller has the outlook at
        a time.
        """
        asked = self._ledger.view().version
        with self._turn:
            kept, now = self._kept, self._clock.now()
            if kept is None or kept.view.version < asked or not 0 <= now - kept.now < KEPT_S:
                kept = self._kept = Outlook(self._ledger.view(), now, self._planner)
            yield kept
