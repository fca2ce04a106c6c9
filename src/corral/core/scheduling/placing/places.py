"""Finds places for a job in one cycle: in what is open to it now, in what is free, or in an empty cluster."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf

from corral.core.model.jobs.job import Job, Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.fit import Misfit
from corral.core.model.placing.placement_rules import IdleFirst
from corral.core.scheduling.placing.idle_first import IdleRanking, place_on_idle
from corral.core.scheduling.placing.node_by_node import choose, fits
from corral.core.scheduling.policy import Policy
from corral.core.scheduling.queueing.admission import Admission
from corral.core.scheduling.queueing.pools import Pools
from corral.core.scheduling.state.draft import Choose, Draft, PlacementRequest
from corral.core.scheduling.turn import Turn

_FitKey = tuple[Request, tuple[tuple[str, float], ...], tuple[str, ...]]
"""The inputs that decide whether a job fits into free capacity: its request, its speeds, the pools closed to it."""


@dataclass(slots=True)
class Places:
    """The places of one cycle, with cached results of searches.

    `chooser` makes the function that chooses a placement by the scores of a policy.
    """

    draft: Draft
    pools: Pools
    admission: Admission
    chooser: Callable[[tuple[tuple[str, float], ...]], Choose]
    _nothing_free: dict[_FitKey, Misfit] = field(default_factory=dict)
    _fits_when_empty: dict[_FitKey, bool] = field(default_factory=dict)
    _empty: Draft | None = None
    _idle: dict[IdleFirst, IdleRanking] = field(default_factory=dict)

    def request(self, job: Job, until: float) -> PlacementRequest:
        """The job's request for a place, limited to devices on which it stays within its quotas."""
        wanted = self.pools.placement_request(job, until)
        request = self.admission.request_within(job, wanted.request)
        return wanted if request is wanted.request else replace(wanted, request=request)

    def find(self, wanted: PlacementRequest, policy: Policy) -> Placement | Misfit:
        """A place in what is open to the job. Makes no search if too little is known to be free."""
        return self._nothing_free.get(_fit_key(wanted)) or self.search(wanted, policy)

    def search(self, wanted: PlacementRequest, policy: Policy) -> Placement | Misfit:
        """A place in what is open to the job now, chosen by its own ranking if it has one, else by its policy.

        If there is none, the misfit of the nearest node.
        """
        if policy.ranking:
            found = self.chooser(policy.ranking)(self.draft, wanted)
        else:
            found = choose(self.draft, wanted, policy.prefer)
        if isinstance(found, Misfit):
            # The other ranking looks at every node: it is asked only about what fits at all.
            return found
        return place_on_idle(self.draft, wanted, self._idle) or found

    def passing(self, turn: Turn, wanted: PlacementRequest) -> Placement | None:
        """A place for a job with a short time limit, in capacity set aside for jobs whose start cannot be predicted."""
        if not self.admission.limits.may_pass(turn.job.spec.time_limit_s) or not self.draft.aside.may_be_passed:
            return None
        if _fit_key(wanted) in self._nothing_free:
            return None
        found = self.search(replace(wanted, passes=True), turn.policy)
        return found if isinstance(found, Placement) else None

    def ignoring_promises(self, wanted: PlacementRequest, policy: Policy, misfit: Misfit) -> Placement | Misfit:
        """The place of a job that is a `misfit` now, if nothing were kept for others; a misfit if too little is free.

        Free capacity only shrinks in a cycle. A misfit is therefore cached, and later jobs of the same kind are not
        tried.
        """
        found: Placement | Misfit | None = self._nothing_free.get(_fit_key(wanted))
        if found is None:
            found = misfit if self.draft.all_open else self.search(wanted.ignoring_promises(), policy)
            if isinstance(found, Misfit):
                self._nothing_free[_fit_key(wanted)] = found
        return found

    def kept_for(self, job: Job, placement: Placement) -> str | None:
        """The first job for which part of the placement is set aside and closed to this job; None if there is none."""
        passes = self.admission.limits.may_pass(job.spec.time_limit_s)
        return self.draft.aside.first_hurt(placement, self.draft.free, passes=passes)

    def exist(self, wanted: PlacementRequest) -> bool:
        """Whether the job would fit if nothing were allocated. If yes, others may have to wait for it.

        A job that fits only on devices lent by pools delays no other job: it could wait for these devices for ever.
        """
        if not wanted.closed_pools:
            return True
        key = _fit_key(wanted)
        if key not in self._fits_when_empty:
            self._empty = self._empty or self.draft.emptied()
            alone = replace(wanted, request=wanted.request.without_neighbours(), until=inf)
            self._fits_when_empty[key] = fits(self._empty, alone)
        return self._fits_when_empty[key]


def _fit_key(wanted: PlacementRequest) -> _FitKey:
    return wanted.request, wanted.speeds, wanted.closed_pools
