"""Log lines for an evicted job: for which job it is stopped, and when it will probably go on."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping

from corral.clock import Clock
from corral.core.control.launching.attempts import Attempt
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.telling.job_notes import tell_members
from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.certainty import Certainty
from corral.core.model.runs.launch import Launch
from corral.core.model.units import format_duration
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.ports.node import NodeAgent
from corral.core.scheduling.explaining.eviction_notices import eviction_notice
from corral.core.scheduling.explaining.phrases import job_called
from corral.core.scheduling.forecast import ExpectedStart

log = logging.getLogger(__name__)

Forecast = Callable[[View, float, Collection[str]], Mapping[str, ExpectedStart]]
"""Returns when these jobs are expected to start, by a view and a time."""

Task = Callable[[], None]


class StopNotes:
    """Writes each line once per member.

    `later` returns at once, and runs its argument on a thread that may take long: no stop waits for a forecast.
    """

    def __init__(
        self, ledger: Ledger, nodes: Nodes, clock: Clock, *, forecast: Forecast, later: Callable[[Task], object]
    ) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._clock = clock
        self._forecast = forecast
        self._later = later
        self._lock = threading.Lock()
        self._asked: dict[str, Attempt] = {}

    def tell(self, agent: NodeAgent, job: Job, attempt: Attempt, launch: Launch) -> None:
        """Write to the log of a member that is being stopped, if its job goes back to its queue or exceeded its time
        limit.

        For the node's own thread.
        """
        if job.stop_reason not in (Phase.PENDING, Phase.TIMED_OUT) or launch.rank in attempt.stop_noted:
            return
        attempt.stop_noted.add(launch.rank)
        goes_back = job.stop_reason is Phase.PENDING
        line = _why_it_goes_back(job) if goes_back else f"stopped: {job.reason}"
        if launch.rank == 0:
            log.info("job %s: %s", job.id, line)
        try:
            agent.logs.note(job.id, launch.rank, line)
        except BackendFailed as error:
            log.warning("the log of job %s could not get a note: %s", job.id, error)
        if launch.rank == 0 and goes_back:
            self._ask(job.id, attempt)

    def _ask(self, job_id: str, attempt: Attempt) -> None:
        with self._lock:
            self._asked[job_id] = attempt
        self._later(self._tell_when)

    def _tell_when(self) -> None:
        """Write the expected restart to the logs of all jobs stopped so far."""
        with self._lock:
            asked, self._asked = self._asked, {}
        view, now = self._ledger.view(), self._clock.now()
        waiting = [job_id for job_id in asked if _goes_back(view.jobs.get(job_id))]
        if not waiting:
            return
        found = self._forecast(view, now, waiting)
        for job_id in waiting:
            line = self._when(view, found.get(job_id) or ExpectedStart(), now)
            tell_members(self._nodes, asked[job_id].launches, line)

    def _when(self, view: View, expected: ExpectedStart, now: float) -> str:
        if expected.start_at is not None:
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._clock.shown(expected.start_at)))
            left_s = max(0.0, expected.start_at - now)
            soon = f"within {format_duration(left_s)}, by {at}" if left_s >= 1 else "at once"
            # Jobs without known run times count with their time limits, so an earlier start is usual.
            return f"it {'goes on' if expected.certainty is Certainty.PROMISE else 'is expected to go on'} {soon}"
        if expected.depends_on is not None and expected.depends_on in view.jobs:
            return (
                f"its next start is unknown: it depends on {job_called(view.jobs[expected.depends_on])}, "
                "which has no time limit"
            )
        return "its next start is not known yet; `corral why` will show it"


def _why_it_goes_back(job: Job) -> str:
    if job.evicted is not None:
        return eviction_notice(job, job.evicted)
    return f"stopped: {job.reason}; it goes back to its place in the queue"


def _goes_back(job: Job | None) -> bool:
    return job is not None and (job.phase is Phase.PENDING or job.stop_reason is Phase.PENDING)
