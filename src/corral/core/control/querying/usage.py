"""Usage in a period: the ledger's sums, split by the rules of accounting."""

from corral.accounting.gpu_hours import total, usage
from corral.clock import Clock
from corral.core.control.querying.fair_shares import fair_shares
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.answers.usage import FairShares, Usage
from corral.core.model.errors import Refused
from corral.core.model.runs.run_history import UsageBy
from corral.core.ports.ledger import Ledger

DEFAULT_PERIOD_S = 7 * 24 * 3600.0


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


def period_of(clock: Clock, since: float | None, until: float | None) -> tuple[float, float]:
    """Return a period by the ledger's clock, from a caller's times by the wall clock.

    The default is the week until now. Raises Refused for a period that ends before it begins.
    """
    now = clock.now()
    end = now if until is None else min(clock.taken(until), now)
    begin = end - DEFAULT_PERIOD_S if since is None else clock.taken(since)
    if begin >= end:
        raise Refused(
            f"since: the period from {begin:.0f} to {end:.0f} is empty; "
            "give a time (Unix seconds) before now and before `until`",
            field="since",
        )
    return begin, end
