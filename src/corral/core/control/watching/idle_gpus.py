"""The watch over GPUs that are allocated and not used while others wait for them."""

import logging

from corral.clock import Clock
from corral.core.control.watching.memory_guard import Stopper, Tell
from corral.core.model.fact import ServerPart
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import EvictionRule
from corral.core.ports.ledger import Ledger
from corral.core.ports.telemetry import Samples
from corral.core.scheduling.evicting.idle_reclaim import Idle, IdlePolicy, judge_idle

log = logging.getLogger(__name__)


class IdleWatch:
    """Warns the holders of idle GPUs in their logs, and releases GPUs that stay idle."""

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Samples,
        clock: Clock,
        *,
        policy: IdlePolicy,
        tell: Tell,
        stopper: Stopper,
    ) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._clock = clock
        self._policy = policy
        self._tell = tell
        self._stopper = stopper
        self._idle: dict[str, Idle] = {}

    def look(self) -> None:
        """Run one round: warn the holders of idle GPUs, and release GPUs that stayed idle for too long."""
        verdicts, self._idle = judge_idle(
            self._ledger.view(), self._telemetry.latest(), self._idle, self._policy, self._clock.now()
        )
        for verdict in verdicts:
            log.warning("job %s: %s", verdict.job_id, verdict.message)
            self._tell(verdict.job_id, verdict.message)
            if verdict.release:
                self._stopper.end(
                    verdict.job_id,
                    Phase.CANCELLED,
                    verdict.message,
                    ServerPart.IDLE_RECLAIM,
                    rule=EvictionRule.IDLE,
                    for_job_id=verdict.for_job_id,
                )
