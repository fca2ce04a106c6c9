"""Capacity set aside for blocked jobs whose start cannot be predicted. Jobs behind them must not take it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from corral.core.model.devices.device import DeviceState
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.fit import FitMemo, Misfit, could_use
from corral.core.model.placing.state import HostAmounts, NodeState, Slot, with_amounts
from corral.core.scheduling.state.capacity import Capacity


@dataclass(frozen=True, slots=True)
class BlockedJob:
    """A job that could not start, for which capacity is set aside.

    Attributes:
        host: whether it lacks CPU or memory of the host; these are then set aside too.
        nodes: the nodes where capacity is set aside; None for every node that could serve the job.
        closed_pools: pools whose devices the job may not use; they stay open to others.
        may_be_passed: whether the capacity stays open to jobs that may pass.
    """

    job_id: str
    request: Request
    host: bool
    nodes: tuple[str, ...] | None = None
    closed_pools: tuple[str, ...] = ()
    may_be_passed: bool = False


@dataclass(slots=True)
class _Open:
    """A node's state less what is set aside for the first `applied` blocked jobs; valid while its state is `base`."""

    base: NodeState
    state: NodeState
    applied: int


@dataclass(slots=True)
class SetAside:
    """The blocked `jobs` for which capacity is set aside, in order."""

    capacity: Capacity
    memo: FitMemo
    jobs: list[BlockedJob] = field(default_factory=list)
    _shapes: dict[tuple[Request, bool, tuple[str, ...] | None, bool], str] = field(default_factory=dict)
    _open: dict[tuple[str, bool], _Open] = field(default_factory=dict)

    def branch(self) -> "SetAside":
        """A copy for trials."""
        return SetAside(self.capacity, self.memo, list(self.jobs), dict(self._shapes))

    def add(self, blocked: BlockedJob) -> None:
        """Close everything that the blocked job could use to others, except to jobs that may pass it."""
        shape = (blocked.request, blocked.host, blocked.nodes, blocked.may_be_passed)
        if self._shapes.setdefault(shape, blocked.job_id) == blocked.job_id:
            self.jobs.append(blocked)

    @property
    def may_be_passed(self) -> bool:
        """Whether some of the capacity is open to jobs that may pass."""
        return any(blocked.may_be_passed for blocked in self.jobs)

    def rest(self, name: str, base: NodeState, *, passes: bool) -> NodeState:
        """The part of the node's state that is not set aside. It is cached as long as the state is the same."""
        found = self._open.get((name, passes))
        if found is None or found.base is not base:
            found = self._open[name, passes] = _Open(base, base, 0)
        if found.applied < len(self.jobs):
            found.state = self._less_all(self.jobs[found.applied :], name, found.state, passes=passes)
            found.applied = len(self.jobs)
        return found.state

    def rest_later(self, name: str, state: NodeState, *, passes: bool) -> NodeState:
        """The part of a later state of the node that is not set aside. It is not cached."""
        return self._less_all(self.jobs, name, state, passes=passes)

    def first_hurt(self, placement: Placement, free: Callable[[str], NodeState], *, passes: bool) -> str | None:
        """The first blocked job that has something in the placement set aside for it; None if there is none.

        With `passes`, jobs that may be passed do not count.
        """
        for blocked in self.jobs:
            if passes and blocked.may_be_passed:
                continue
            for member in placement.members:
                before = free(member.node)
                after = self._less(blocked, member.node, before)
                changed = any(before.slots[i] != after.slots[i] for i in self.capacity.slots_of(member))
                if changed or _host_of(after) != _host_of(before):
                    return blocked.job_id
        return None

    def _less_all(self, jobs: list[BlockedJob], name: str, state: NodeState, *, passes: bool) -> NodeState:
        for blocked in jobs:
            if not (passes and blocked.may_be_passed):
                state = self._less(blocked, name, state)
        return state

    def _less(self, blocked: BlockedJob, name: str, state: NodeState) -> NodeState:
        """The state without what the blocked job could use; the same object if the job could never run on the node."""
        if (blocked.nodes is not None and name not in blocked.nodes) or not blocked.request.allows_node(name):
            return state
        usable = self.capacity.usable(name, blocked.request)
        answer = self.memo(blocked.request, state, usable)
        if isinstance(answer, Misfit) and answer.never:
            return state
        closed = self.capacity.slots_in_pools(name, blocked.closed_pools)
        slots = tuple(
            _closed_to_others(blocked.request, slot)
            if blocked.request.devices
            and i not in closed
            and could_use(blocked.request, slot, usable=usable is None or i in usable)
            else slot
            for i, slot in enumerate(state.slots)
        )
        return with_amounts(state, slots, (0, 0, 0, state.members_left) if blocked.host else _host_of(state))


def _host_of(state: NodeState) -> HostAmounts:
    return state.cpu_milli, state.memory_mib, state.disk_mib, state.members_left


def _closed_to_others(request: Request, slot: Slot) -> Slot:
    if slot.blocked not in (None, DeviceState.SUSPECT) and request.accept_in_use is None:
        return slot
    return reserved(slot)


def reserved(slot: Slot) -> Slot:
    """The slot, marked as reserved for another job."""
    return slot._replace(blocked=DeviceState.RESERVED)
