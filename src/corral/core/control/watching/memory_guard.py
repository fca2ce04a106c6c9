"""The watch over the memory of shared devices: it compares what jobs use with their grants.

The watch writes its finding into a job's log and stops the job as FAILED, so that the job's retry policy applies.
"""

import logging
from collections.abc import Callable

from corral.clock import Clock
from corral.core.lifecycle import stopping
from corral.core.model.devices.means import Level, Means
from corral.core.model.fact import Fact, ServerPart
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.telemetry import Samples
from corral.core.sharing.memory_overuse import Action, Bound, GuardPolicy, GuardState, judge

log = logging.getLogger(__name__)

Tell = Callable[[str, str], None]
"""Writes a line into a job's log."""


class Stopper:
    """Ends jobs that exceeded their limits, or whose device failed."""

    def __init__(self, ledger: Ledger, clock: Clock, stop: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stop = stop

    def end(
        self,
        job_id: str,
        ending: Phase,
        reason: str,
        by: ServerPart,
        *,
        rule: EvictionRule | None = None,
        for_job_id: str | None = None,
    ) -> None:
        """Stop a live job, to end in `ending`. After FAILED and LOST the job's retries apply. Does nothing if the job
        is not live.

        With `rule` the job is stopped by that rule in favour of other jobs, or of job `for_job_id`.
        """

        def decide(view: View) -> Decided[str | None]:
            job = view.jobs.get(job_id)
            facts: list[Fact] = []
            if job is not None:
                at = self._clock.now()
                facts = stopping.stop(job, ending, reason, by=by, at=at, rule=rule, for_job_id=for_job_id)
            return Decided(tuple(facts), job.allocation_id if job is not None and facts else None)

        allocation_id = self._ledger.commit(decide).result()
        if allocation_id is not None:
            self._stop(allocation_id)


class MemoryGuard:
    """Judges every new sample of the devices on which memory is guarded."""

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Samples,
        clock: Clock,
        *,
        policy: GuardPolicy,
        tell: Tell,
        stopper: Stopper,
    ) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._clock = clock
        self._policy = policy
        self._tell = tell
        self._stopper = stopper
        self._state = GuardState()

    def look(self) -> None:
        """Run one round: warn jobs that exceed their grant, and stop jobs whose grace period is over."""
        bounds = guarded(self._ledger.view())
        if not bounds and not self._state.watched:
            return
        verdicts, self._state = judge(
            bounds, self._telemetry.latest(), self._state, self._clock.monotonic(), self._policy
        )
        for verdict in verdicts:
            log.warning("%s", verdict.message)
            self._tell(verdict.job_id, verdict.message)
            if verdict.action is Action.STOP:
                self._stopper.end(
                    verdict.job_id, Phase.FAILED, verdict.why, ServerPart.MEMORY_GUARD, rule=EvictionRule.MEMORY
                )


def guarded(view: View) -> list[Bound]:
    """Return the granted memory of live jobs whose grants only the guard enforces."""
    held = [
        (allocation, grant)
        for allocation in view.allocations.values()
        if allocation.enforcement is not None and allocation.enforcement.memory is not Level.ENFORCED
        for member in allocation.placement.members
        for grant in member.grants
        if grant.memory_mib is not None
        and (allocation.enforcement.memory is Level.GUARDED or _shared_loosely(view, member.node, grant))
    ]
    names = view.device_names() if held else {}
    return [
        Bound(allocation.job_id, grant.uuid, grant.memory_mib or 0, allocation.id, names.get(grant.uuid))
        for allocation, grant in held
    ]


def _shared_loosely(view: View, node: str, grant: Grant) -> bool:
    """Whether the grant is a time slice on a host, or under a hook. The job's level may be that of another GPU."""
    devices = () if node not in view.nodes else view.nodes[node].devices
    device = next((one for one in devices if one.uuid == grant.uuid), None)
    loose = (Means.TIMESLICE, Means.HOOK)
    return device is not None and not device.replica and device.held_by(grant.share_milli) in loose
