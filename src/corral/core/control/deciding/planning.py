"""Planners: the one that decides, and others that plan as it does."""

from collections.abc import Mapping

from corral.core.model.jobs.job import JobKind
from corral.core.model.view import View
from corral.core.ports.ledger import JobQuery, Ledger
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import DEFAULT, Policy

RECALLED_JOBS = 1_000
"""So many of the newest jobs tell a new server what to expect; reading them takes some 50 ms."""


class Planners:
    """Makes planners by the site's policies."""

    def __init__(self, ledger: Ledger, policies: Mapping[str, Policy]) -> None:
        self._ledger = ledger
        self._policies = policies
        self._deciding: Planner | None = None

    def deciding(self, view: View) -> Planner:
        """The planner that decides. It expects the like of what has come: prices are learned again from the ledger."""
        planner = self.alike(view)
        recent = self._ledger.jobs(JobQuery(limit=RECALLED_JOBS))
        planner.observe_requests(job.spec.request for job in reversed(recent) if job.spec.kind is JobKind.RUN)
        self._deciding = planner
        return planner

    def alike(self, view: View) -> Planner:
        """A planner that plans as the one that decides does, by what that one has learned so far."""
        prices = None if self._deciding is None else self._deciding.prices
        return Planner(view, policy=self._policies[DEFAULT.order.name], policies=self._policies, prices=prices)
