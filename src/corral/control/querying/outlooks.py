"""What jobs can expect by the ledger's view, worked out once and kept while nothing changes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from corral.clock import Clock
from corral.ports.ledger import Ledger
from corral.scheduling.forecast import MakePlanner
from corral.scheduling.outlook import Outlook

KEPT_S = 5.0
"""The outlook of one view is kept so long: time alone changes little, such as a job that runs beyond its estimate."""


class Outlooks:
    """One outlook for all who ask, on the thread of one of them. Thread-safe.

    However many ask while jobs come and go, one outlook is worked out at a time, and nobody waits for more than two.
    """

    def __init__(self, ledger: Ledger, clock: Clock, planner: MakePlanner) -> None:
        self._ledger = ledger
        self._clock = clock
        self._planner = planner
        self._turn = threading.Lock()
        self._kept: Outlook | None = None

    @contextmanager
    def current(self) -> Iterator[Outlook]:
        """The outlook by the view as it is now, or has become while others asked; nobody else has it meanwhile."""
        asked = self._ledger.view().version
        with self._turn:
            kept, now = self._kept, self._clock.now()
            if kept is None or kept.view.version < asked or not 0 <= now - kept.now < KEPT_S:
                kept = self._kept = Outlook(self._ledger.view(), now, self._planner)
            yield kept
