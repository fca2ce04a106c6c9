"""A planner that follows a ledger, beside the one that decides for the server."""

import threading
from collections.abc import Callable, Sequence

from corral.core.model.fact import Delta
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.scheduling.planner import Planner

MOST_DELTAS = 100_000
"""With more deltas than this the planner begins anew: nobody has asked it for long."""


class FollowedPlanner:
    """Follows a ledger from the first call of `current` on, which is for one thread at a time."""

    def __init__(self, ledger: Ledger, make_planner: Callable[[View], Planner]) -> None:
        self._ledger = ledger
        self._make_planner = make_planner
        self._planner: Planner | None = None
        self._since = 0
        """The version of the view with which the planner began."""
        self._lock = threading.Lock()
        self._batches: list[tuple[int, Sequence[Delta]]] = []
        self._waiting = 0
        self._overrun = False

    def current(self) -> Planner:
        """Return the planner over the newest view."""
        if self._planner is None:
            self._ledger.subscribe(self._changed)
        with self._lock:
            batches, self._batches, self._waiting = self._batches, [], 0
            overrun, self._overrun = self._overrun, False
        if self._planner is None or overrun:
            view = self._ledger.view()
            self._planner, self._since = self._make_planner(view), view.version
        else:
            self._planner.advance([delta for version, batch in batches if version > self._since for delta in batch])
        return self._planner

    def _changed(self, view: View, deltas: Sequence[Delta]) -> None:
        with self._lock:
            self._batches.append((view.version, deltas))
            self._waiting += len(deltas)
            if self._waiting > MOST_DELTAS:
                self._batches, self._waiting, self._overrun = [], 0, True
