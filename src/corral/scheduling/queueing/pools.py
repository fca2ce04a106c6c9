"""Pools: devices set apart for some, lent to others while they are idle."""

from collections.abc import Collection, Iterable, Mapping

from corral.model.allocation import Allocation
from corral.model.job import Job
from corral.model.queue import Pool
from corral.model.view import View
from corral.scheduling.state.draft import PlacementRequest


class Pools:
    """What the pools of a cluster mean for a job.

    While one of `owners`, jobs that wait and may start, has a pool of its own, that pool lends nothing more: who was
    ended for an owner would otherwise be back on the device before the owner has all that it needs. `closing` are
    the ids of those owners.
    """

    def __init__(self, pools: Mapping[str, Pool], owners: Collection[Job] = ()) -> None:
        self._pools = pools
        self._names = sorted(pools)
        lending = [name for name in self._names if pools[name].lends]
        self._lends = tuple(name for name in lending if not any(self._owns(job, name) for job in owners))
        self.closing = frozenset(job.id for job in owners if any(self._owns(job, name) for name in lending))

    def placement_request(self, job: Job, until: float) -> PlacementRequest:
        """What the job asks for: not of pools that are shut to it, and of those that lend to it last."""
        if not self._names:
            return PlacementRequest(job.spec.request, until, job.spec.speeds)
        foreign = [name for name in self._names if not self._owns(job, name)]
        closed_pools = tuple(name for name in foreign if name not in self._lends)
        lending_pools = tuple(name for name in foreign if name in self._lends)
        return PlacementRequest(
            job.spec.request, until, job.spec.speeds, closed_pools=closed_pools, lending_pools=lending_pools
        )

    def lends_of(self, job: Job) -> tuple[str, ...]:
        """The job's own pools that lend, and may take back for it."""
        return tuple(name for name in self._names if self._pools[name].lends and self._owns(job, name))

    def owns_any(self, job: Job, pools: Iterable[str]) -> bool:
        """Whether one of these pools is the job's own."""
        return any(self._owns(job, name) for name in pools)

    def borrowed(self, job: Job, allocation: Allocation, pools: Iterable[str]) -> str | None:
        """The first of these pools of which the job, not one of its own, holds a device; None when it holds none."""
        held = set(allocation.placement.uuids)
        for name in pools:
            if not self._owns(job, name) and not held.isdisjoint(self._pools[name].devices):
                return name
        return None

    def _owns(self, job: Job, name: str) -> bool:
        return self._pools[name].owned_by(job.spec.user, job.spec.project)


def closed_pools_of(view: View, user: str, project: str) -> tuple[str, ...]:
    """The pools of others that lend nothing: what no work of this user in this project ever gets."""
    pools = sorted(view.pools.items())
    return tuple(name for name, pool in pools if not pool.lends and not pool.owned_by(user, project))
