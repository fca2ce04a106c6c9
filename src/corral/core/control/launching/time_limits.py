"""Informs nodes of a time limit that changed after the launch: the supervisor there enforces the limit.

If a node does not answer, the recheck informs it. A node that joins, or whose agent or server has restarted, is
informed when it is reconciled.
"""

from collections.abc import Callable
from functools import partial

from corral.core.control.launching.attempts import Attempt, Attempts
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import CorralError
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import LaunchPhase, with_time_limit


class TimeLimits:
    """Keeps the time limits on nodes equal to those in the ledger. Thread-safe.

    `trouble` is called with an attempt whose node could not be informed, a description of the failed step, and the
    error.
    """

    def __init__(
        self, attempts: Attempts, nodes: Nodes, trouble: Callable[[Attempt, str, BaseException | None], None]
    ) -> None:
        self._attempts = attempts
        self._nodes = nodes
        self._trouble = trouble

    def changed(self, allocation_id: str) -> None:
        """Send the new time limit of this allocation's job to its nodes, each on its own thread."""
        attempt = self._attempts.of(allocation_id)
        for launch in () if attempt is None else attempt.launches:
            assert attempt is not None
            self._nodes.worker(launch.node).put(partial(self.renew, attempt, launch.rank))

    def renew(self, attempt: Attempt, rank: int) -> None:
        """Send the node of a launch its time limit if it has another one. For that node's thread."""
        job, launch = self._attempts.job_of(attempt), attempt.launches[rank]
        limit_s = None if job is None else job.spec.time_limit_s
        if job is None or job.phase not in (Phase.STARTING, Phase.RUNNING) or attempt.is_over(rank):
            return
        if limit_s is None or limit_s == launch.job.spec.time_limit_s:
            return
        if rank not in attempt.asked_at and attempt.report(rank).phase is LaunchPhase.UNKNOWN:
            # The job is not launched yet. The limit is sent again after the launch.
            return
        try:
            self._nodes.agent(launch.node).launches.set_time_limit(launch.id, limit_s)
        except CorralError as error:
            self._trouble(attempt, f"launch {launch.id} did not get its time limit", error)
            return
        attempt.told(with_time_limit(launch, limit_s))
        attempt.trouble = None
