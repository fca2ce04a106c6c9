"""How waiting jobs spend their wait: seconds by reason, kept while they wait."""

from collections.abc import Iterable

from corral.model.plan import Hold


class WaitBook:
    """Books each waiting job's time under the reason of its last hold. In memory; the start writes it to the ledger."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}
        self._spent: dict[str, dict[str, float]] = {}

    def note(self, holds: Iterable[Hold], now: float) -> None:
        """Take down the holds of a plan made at `now`."""
        for hold in holds:
            reason, since = self._since.get(hold.job_id, ("", now))
            if reason != hold.reason.value:
                self._book(hold.job_id, reason, now - since)
                self._since[hold.job_id] = (hold.reason.value, now)

    def spent(self, job_id: str, submitted_at: float, now: float) -> tuple[tuple[str, float], ...]:
        """(reason, seconds) pairs so far, in the order in which the reasons first came.

        Time before the first hold was taken down, such as while the server was away, is booked as "Unrecorded".
        """
        reason, since = self._since.get(job_id, ("", now))
        spent = dict(self._spent.get(job_id, {}))
        if reason:
            spent[reason] = spent.get(reason, 0.0) + max(0.0, now - since)
        unrecorded = max(0.0, now - submitted_at) - sum(spent.values())
        if unrecorded > 1.0:
            spent = {"Unrecorded": unrecorded, **spent}
        return tuple(spent.items())

    def close(self, job_id: str) -> None:
        """The job waits no longer."""
        self._since.pop(job_id, None)
        self._spent.pop(job_id, None)

    def _book(self, job_id: str, reason: str, seconds: float) -> None:
        if reason:
            spent = self._spent.setdefault(job_id, {})
            spent[reason] = spent.get(reason, 0.0) + max(0.0, seconds)
