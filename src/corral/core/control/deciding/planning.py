"""Creates planners: the one of the scheduling loop, and others that plan the same way."""

from collections.abc import Mapping

from corral.core.model.jobs.job import JobKind
from corral.core.model.view import View
from corral.core.ports.ledger import JobQuery, Ledger
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import DEFAULT, Policy

RECALLED_JOBS = 1_000
"""A new server learns from this many of the newest jobs; reading them takes about 50 ms."""


class Planners:
    """Creates planners by the site's policies."""

    def __init__(self, ledger: Ledger, policies: Mapping[str, Policy]) -> None:
        self._ledger = ledger
        self._policies = policies
        self._deciding: Planner | None = None

    def deciding(self, view: View) -> Planner:
        """Return the planner of the scheduling loop. It learns prices again from the recent requests in the ledger."""
        planner = self.alike(view)
        recent = self._ledger.jobs(JobQuery(limit=RECALLED_JOBS))
        planner.observe_requests(job.spec.request for job in reversed(recent) if job.spec.kind is JobKind.RUN)
        self._deciding = planner
        return planner

    def alike(self, view: View) -> Planner:
        """Return a planner that plans like the one of the scheduling loop, with the prices that one has learned."""
        prices = None if self._deciding is None else self._deciding.prices
        return Planner(view, policy=self._policies[DEFAULT.order.name], policies=self._policies, prices=prices)
