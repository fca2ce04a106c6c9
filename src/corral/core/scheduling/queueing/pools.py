"""Pools: devices that belong to some users and projects, and may be lent to others while they are idle."""

from collections.abc import Collection, Iterable

from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Allocation, Placement
from corral.core.model.view import View
from corral.core.scheduling.queueing.barred_nodes import barred_to, kept_off
from corral.core.scheduling.state.draft import PlacementRequest
from corral.core.scheduling.state.packed_request import request_of


class Pools:
    """The pools that each job may use.

    `owners` are waiting jobs that may start. A pool that belongs to one of them lends nothing in this cycle. Otherwise
    a job evicted for the owner would get the device back before the owner has all it needs. `closing` are the ids of
    these owners.
    """

    def __init__(self, view: View, owners: Collection[Job] = ()) -> None:
        self._view = view
        self._pools, self._set_apart = view.pools, view.set_apart
        self._names = sorted(self._pools)
        lending = [name for name in self._names if self._pools[name].lends]
        self._lends = tuple(name for name in lending if not any(self._owns(job, name) for job in owners))
        self.closing = frozenset(job.id for job in owners if any(self._owns(job, name) for name in lending))

    def placement_request(self, job: Job, until: float) -> PlacementRequest:
        """The job's request with the nodes that are barred to it, the pools that are closed to it, and those that
        lend to it.
        """
        request = request_of(self._view, job)
        if self._view.barred or self._view.no_docker:
            request = kept_off(request, barred_to(self._view, job.spec.user, job.spec.container))
        if not self._names:
            return PlacementRequest(request, until, job.spec.speeds)
        foreign = [name for name in self._names if not self._owns(job, name)]
        closed_pools = tuple(name for name in foreign if name not in self._lends)
        lending_pools = tuple(name for name in foreign if name in self._lends)
        return PlacementRequest(request, until, job.spec.speeds, closed_pools=closed_pools, lending_pools=lending_pools)

    def lends_of(self, job: Job) -> tuple[str, ...]:
        """The job's own pools that lend to others, and can reclaim devices for it."""
        return tuple(name for name in self._names if self._pools[name].lends and self._owns(job, name))

    def owns_any(self, job: Job, pools: Iterable[str]) -> bool:
        """Whether the job belongs to the owners of one of these pools."""
        return any(self._owns(job, name) for name in pools)

    def borrowed(self, job: Job, allocation: Allocation, pools: Iterable[str]) -> str | None:
        """The first of these pools from which the job borrows a device; None if there is none."""
        members = allocation.placement.members
        for name in pools:
            here = () if self._owns(job, name) else members
            if any(grant.uuid in self._set_apart[name].get(one.node, ()) for one in here for grant in one.grants):
                return name
        return None

    def _owns(self, job: Job, name: str) -> bool:
        return self._pools[name].owned_by(job.spec.user, job.spec.project)


def closed_pools_of(view: View, user: str, project: str) -> tuple[str, ...]:
    """The pools of others that do not lend. No job of this user in this project ever gets their devices."""
    pools = sorted(view.pools.items())
    return tuple(name for name, pool in pools if not pool.lends and not pool.owned_by(user, project))


def set_apart_from(view: View, user: str, project: str, placement: Placement) -> str | None:
    """The first pool of others that does not lend and has a device of this placement; None if there is none."""
    for name in closed_pools_of(view, user, project) if view.pools else ():
        apart = view.set_apart[name]
        if any(grant.uuid in apart.get(one.node, ()) for one in placement.members for grant in one.grants):
            return name
    return None
