"""The devices of jobs for an engine: what the ledger has given, and exchanges once the cluster has given others."""

from collections.abc import Callable, Sequence

from corral.clock import Clock
from corral.core.control.watching.memory_guard import Stopper
from corral.core.lifecycle.exchanging import exchange, launches_on
from corral.core.model.fact import ServerPart
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import job_of
from corral.core.model.view import View
from corral.core.ports.job_devices import Choose, LaunchDevices, Targets
from corral.core.ports.ledger import Decided, Ledger


class LedgerJobDevices:
    """Implements `corral.core.ports.job_devices.JobDevices`. `renew` builds the launches on a node again."""

    def __init__(self, ledger: Ledger, clock: Clock, stopper: Stopper, renew: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stopper = stopper
        self._renew = renew

    def on(self, node: str) -> Sequence[LaunchDevices]:
        return _on(self._ledger.view(), node)

    def exchange(self, node: str, choose: Choose, *, closed: bool = False) -> Targets | None:
        def decide(view: View) -> Decided[Targets | None]:
            if closed and node not in view.silences:
                return Decided((), None)
            targets = choose(_on(view, node))
            facts = exchange(view, targets, by=ServerPart.DEVICE_EXCHANGE, at=self._clock.now())
            return Decided((), None) if facts is None else Decided(tuple(facts), targets)

        exchanged = self._ledger.commit(decide).result()
        if exchanged:
            self._renew(node)
        return exchanged

    def fail(self, launch_id: str, reason: str) -> None:
        self._stopper.end(job_of(launch_id), Phase.FAILED, reason, ServerPart.DEVICE_EXCHANGE)


def _on(view: View, node: str) -> list[LaunchDevices]:
    return [
        LaunchDevices(launch, allocation.placement.members[rank].grants)
        for launch, allocation, rank in launches_on(view, node)
    ]
