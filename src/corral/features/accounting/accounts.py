"""Usage in a period: the ledger's sums, split by the rules of accounting."""

from corral.clock import Clock
from corral.core.control.querying.wall_times import in_wall_time, period_of
from corral.core.model.runs.run_history import UsageBy
from corral.core.ports.ledger import Ledger
from corral.features.accounting.answers import FairShares, Usage
from corral.features.accounting.fair_shares import fair_shares
from corral.features.accounting.gpu_hours import total, usage


class Accounts:
    """Adds up allocations that have ended, and the elapsed part of those that have not."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def usage(self, by: UsageBy, *, since: float | None = None, until: float | None = None) -> Usage:
        """GPU-hours used between two times (Unix seconds). By default `until` is now, and `since` a week before it.

        Raises Refused for a period that ends before it begins.
        """
        begin, end = period_of(self._clock, since, until)
        times = self._ledger.allocated(begin, end)
        return in_wall_time(Usage(by.value, begin, end, usage(times, by), total(times)), self._clock)

    def fair_shares(self) -> FairShares:
        """Return the usage that counts now for each project and user."""
        return fair_shares(self._ledger.view(), self._clock.now())
