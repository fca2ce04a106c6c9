"""The watch over GPUs that are allocated and not used."""

import logging
from functools import partial

from corral.clock import Clock
from corral.core.control.watching.memory_guard import Stopper, Tell
from corral.core.lifecycle.device_health import tested_for_idleness
from corral.core.model.devices.health import WELL
from corral.core.model.fact import DeviceHealthChanged, ServerPart
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.telemetry import Samples
from corral.core.scheduling.evicting.idle_reclaim import Idle, IdlePolicy, IdleVerdict, judge_idle

log = logging.getLogger(__name__)


class IdleWatch:
    """Warns the holders of idle GPUs in their logs, and releases GPUs that stay idle.

    With `tests` a GPU that a job was told of is tested once the job has ended: it may be sick.
    """

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Samples,
        clock: Clock,
        *,
        policy: IdlePolicy,
        tell: Tell,
        stopper: Stopper,
        tests: bool = False,
    ) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._clock = clock
        self._policy = policy
        self._tell = tell
        self._stopper = stopper
        self._tests = tests
        self._idle: dict[str, Idle] = {}

    def look(self) -> None:
        """Run one round: warn the holders of idle GPUs, and release GPUs that stayed idle for too long."""
        verdicts, self._idle = judge_idle(
            self._ledger.view(), self._telemetry.latest(), self._idle, self._policy, self._clock.now()
        )
        for verdict in verdicts:
            log.warning("job %s: %s", verdict.job_id, verdict.message)
            self._tell(verdict.job_id, verdict.message)
            if self._tests and verdict.unused:
                self._ledger.commit(partial(self._have_tested, verdict)).result()
            if verdict.release:
                self._stopper.end(
                    verdict.job_id,
                    Phase.CANCELLED,
                    verdict.message,
                    ServerPart.IDLE_RECLAIM,
                    rule=EvictionRule.IDLE,
                    for_job_id=verdict.for_job_id,
                )

    def _have_tested(self, verdict: IdleVerdict, view: View) -> Decided[None]:
        at, facts = self._clock.now(), list[DeviceHealthChanged]()
        for uuid in verdict.unused:
            place, health = view.device(uuid), view.health.get(uuid, WELL)
            step = tested_for_idleness(health, verdict.job_id, verdict.unused_s, at)
            if step is not None and place is not None and place[1].parent_uuid is None:
                by = ServerPart.IDLE_RECLAIM
                facts.append(DeviceHealthChanged(uuid, step.health, step.evidence, at=at, by=by))
        return Decided(tuple(facts), None)
