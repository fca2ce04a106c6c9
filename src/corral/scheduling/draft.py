"""One cycle's scratch copy of the free capacity: what would be left after the starts decided so far.

A node has two readings. Its *free* state is what nobody holds. Its *open* state is what of that is not kept for a job
further ahead: a blocked head keeps every device it could use, so that jobs behind it cannot starve it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from corral.model.allocation import Member, Placement
from corral.model.device import DeviceState
from corral.model.fit import Cause, Fit, Misfit, NodeState, Slot, could_use, fit
from corral.model.job import Request
from corral.scheduling.capacity import Capacity

Choose = Callable[["Draft", Request], Placement | Misfit]
"""Finds a place in the open capacity for every member of a request, or says why there is none."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """A job that was not started and what it needs; `host` says that it lacks CPU or memory of the host."""

    job_id: str
    request: Request
    host: bool


class FitMemo:
    """Answers of `fit` by request and state: nodes in equal states share one, from cycle to cycle."""

    LIMIT = 50_000

    def __init__(self) -> None:
        self._known: dict[tuple[Request, NodeState, tuple[int, ...] | None], Fit | Misfit] = {}

    def fit(self, request: Request, state: NodeState, named: tuple[int, ...] | None) -> Fit | Misfit:
        """The answer of `corral.model.fit.fit`."""
        key = (request, state, named)
        answer = self._known.get(key)
        if answer is None:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            answer = self._known[key] = fit(request, state, named=named)
        return answer


@dataclass(slots=True)
class Draft:
    """Free and open capacity, changed by `take` and `keep`. `keepers` remembers who keeps a slot, first come first."""

    capacity: Capacity
    memo: FitMemo
    _free: dict[str, NodeState] = field(default_factory=dict)
    _open: dict[str, tuple[NodeState, int]] = field(default_factory=dict)
    _kept: list[Keeping] = field(default_factory=list)
    _kept_shapes: dict[tuple[Request, bool], str] = field(default_factory=dict)
    _arrived: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def free(self, name: str) -> NodeState:
        """What nobody holds on the node."""
        return self._free.get(name) or self.capacity.state(name)

    def open(self, name: str) -> NodeState:
        """What nobody holds on the node and nobody ahead is kept it for."""
        state, applied = self._open.get(name) or (self.free(name), 0)
        if applied < len(self._kept):
            for keeping in self._kept[applied:]:
                state = keep_for(keeping, state, self.capacity.named(name, keeping.request.device_uuids), self.memo)
            self._open[name] = (state, len(self._kept))
        return state

    def fit(self, name: str, request: Request) -> Fit | Misfit:
        """Whether one member fits into the open capacity of the node."""
        return self._fit(name, request, self.open(name))

    def fit_free(self, name: str, request: Request) -> Fit | Misfit:
        """Whether one member would fit if nothing were kept for the jobs ahead."""
        return self._fit(name, request, self.free(name))

    def branch(self) -> "Draft":
        """A copy to try things on."""
        return Draft(
            self.capacity,
            self.memo,
            dict(self._free),
            dict(self._open),
            list(self._kept),
            dict(self._kept_shapes),
            dict(self._arrived),
        )

    def unkept(self) -> "Draft":
        """A copy in which nothing is kept for anybody."""
        return Draft(self.capacity, self.memo, dict(self._free), _arrived=dict(self._arrived))

    def take(self, members: Sequence[Member], title: str = "") -> None:
        """Hand out what the members get; `title` is the name of their job, which others may want to avoid."""
        for member in members:
            self._arrived[member.node] = (*self._arrived.get(member.node, ()), title)
            self._free[member.node] = without(self.free(member.node), member, self._slots(member))
            self._open.pop(member.node, None)

    def keep(self, keeping: Keeping) -> None:
        """From here on nothing that the job could use is open to others."""
        if self._kept_shapes.setdefault((keeping.request, keeping.host), keeping.job_id) == keeping.job_id:
            self._kept.append(keeping)

    def keeper(self, placement: Placement) -> str | None:
        """The first job for which something in the placement is kept."""
        for keeping in self._kept:
            if any(self._keeps(keeping, member) for member in placement.members):
                return keeping.job_id
        return None

    def _keeps(self, keeping: Keeping, member: Member) -> bool:
        named = self.capacity.named(member.node, keeping.request.device_uuids)
        before = self.free(member.node)
        after = keep_for(keeping, before, named, self.memo)
        touched = [before.slots[i] != after.slots[i] for i in self._slots(member)]
        return any(touched) or (after.cpu_milli, after.memory_mib) != (before.cpu_milli, before.memory_mib)

    def _fit(self, name: str, request: Request, state: NodeState) -> Fit | Misfit:
        if request.avoid_jobs:
            present = {*self.capacity.residents(name), *self._arrived.get(name, ())}
            avoided = sum(1 for job in request.avoid_jobs if job in present)
            if avoided:
                return Misfit(Cause.ANTI_AFFINITY, 0, avoided, eviction_helps=True)
        return self.memo.fit(request, state, self.capacity.named(name, request.device_uuids))

    def _slots(self, member: Member) -> tuple[int, ...]:
        found = (self.capacity.slot(grant.uuid) for grant in member.grants)
        return tuple(place[1] for place in found if place is not None)


def without(state: NodeState, member: Member, slots: Sequence[int]) -> NodeState:
    """The state after a member took its grants from these slots, in the order of its grants."""
    left = list(state.slots)
    for index, grant in zip(slots, member.grants, strict=True):
        slot = left[index]
        left[index] = slot._replace(
            free_milli=slot.free_milli - grant.share_milli,
            free_mib=None if slot.free_mib is None else slot.free_mib - (grant.memory_mib or 0),
        )
    return state._replace(
        slots=tuple(left),
        cpu_milli=state.cpu_milli - member.cpu_milli,
        memory_mib=state.memory_mib - member.host_memory_mib,
    )


def keep_for(keeping: Keeping, state: NodeState, named: tuple[int, ...] | None, memo: FitMemo) -> NodeState:
    """The state with everything kept that the job could use, were it only free; the state itself if it never could."""
    answer = memo.fit(keeping.request, state, named)
    if isinstance(answer, Misfit) and answer.never:
        return state
    slots = tuple(
        _kept(keeping.request, slot)
        if keeping.request.devices and could_use(keeping.request, slot, named=named is None or i in named)
        else slot
        for i, slot in enumerate(state.slots)
    )
    return state._replace(
        slots=slots,
        cpu_milli=0 if keeping.host else state.cpu_milli,
        memory_mib=0 if keeping.host else state.memory_mib,
    )


def _kept(request: Request, slot: Slot) -> Slot:
    if slot.blocked is not None and request.accept_in_use is None:
        return slot
    return slot._replace(blocked=DeviceState.RESERVED)
