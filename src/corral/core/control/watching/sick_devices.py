"""Looks after the jobs of devices that fell sick, beside the move of those that run there.

It tells the users of jobs that are left there, has jobs tried again that had just failed there, and ends the avoidance
of devices in time.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from corral.clock import Clock
from corral.core.lifecycle.device_faults import aged, failed_there, forgiven, left_there
from corral.core.model.devices.health import Health
from corral.core.model.fact import Fact
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_sort import JobSort
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, JobQuery, Ledger

log = logging.getLogger(__name__)

_NEWEST_FAILURES = JobQuery(phases=(Phase.FAILED, Phase.LOST), sort=JobSort("ended", descending=True), limit=500)
"""The failures among which those of a device are looked for. More jobs hardly fail in half a minute."""

LOOKED_BACK_S = 3600.0
"""A device that fell sick this long before the server started may have jobs that nobody has looked for."""

AGEING_S = 60.0
"""The interval at which all jobs are looked at for devices that they need no longer keep off."""


class SickDevices:
    """Runs round by round. `tell` writes a line into a job's log. For one thread."""

    def __init__(self, ledger: Ledger, clock: Clock, tell: Callable[[str, str], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._tell = tell
        self._told: dict[str, str] = {}
        self._looked_at = clock.now() - LOOKED_BACK_S
        self._age_at = 0.0

    def look(self) -> None:
        """Run one round."""
        view, now = self._ledger.view(), self._clock.now()
        self._tell_users(view)
        sick = {uuid: one.since for uuid, one in view.health.items() if one.state is Health.QUARANTINED}
        fresh = {uuid: since for uuid, since in sick.items() if since > self._looked_at}
        if fresh:
            self._try_again(fresh)
            self._looked_at = max(fresh.values())
        if now >= self._age_at:
            self._age_at = now + AGEING_S
            if aged(view, now):
                self._ledger.commit(lambda newest: Decided(tuple(aged(newest, now)), None)).result()

    def _tell_users(self, view: View) -> None:
        left = left_there(view)
        for allocation_id, line in left.items():
            if self._told.get(allocation_id) != line:
                job_id = view.allocations[allocation_id].job_id
                log.warning("job %s: %s", job_id, line)
                self._tell(job_id, line)
        self._told = left

    def _try_again(self, sick: Mapping[str, float]) -> None:
        """Have the jobs tried again that had failed on these devices for good, just before the fault was seen."""
        failed = [
            (uuid, job)
            for job in self._ledger.jobs(_NEWEST_FAILURES)
            for uuid, since in sick.items()
            if failed_there(job, uuid, since)
        ]
        if failed:
            self._ledger.commit(lambda view: Decided(tuple(_forgiven(view, failed)), None)).result()


def _forgiven(view: View, failed: Sequence[tuple[str, Job]]) -> list[Fact]:
    facts: list[Fact] = []
    done: set[str] = set()
    for uuid, job in failed:
        # A user may have requeued it meanwhile.
        if job.id not in view.jobs and job.id not in done and uuid in view.health:
            step = forgiven(view, job, uuid, view.health[uuid], view.health[uuid].since)
            done.update([job.id] if step else [])
            facts += step
    return facts
