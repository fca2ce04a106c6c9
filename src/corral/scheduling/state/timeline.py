"""Time: when devices come back, and what is promised to whom until then.

A timeline knows for each node what is free from now on, as a step function of time: it steps up where a running job is
expected to end, and down where a reservation begins. A job may start now if it fits into every step that it would see.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, nextafter

from corral.model.allocation import Grant, Member
from corral.model.fit import NodeState, Slot
from corral.model.units import MILLI_PER_DEVICE

SAME_MOMENT_S = 0.5
"""Times that differ by less are one: jobs start and end a little later than any plan says, each by another bit."""

SlotsOf = Callable[[Member], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Release:
    """What a running job holds on one node, and when it is expected to give it back (Unix seconds)."""

    at: float
    member: Member


@dataclass(slots=True)
class Steps:
    """One node's free capacity: `states[i]` from `times[i]` on. `least[i]` is the least of the first i + 1 states."""

    times: list[float]
    states: list[NodeState]
    least: list[NodeState] = field(default_factory=list)

    def until(self, end: float) -> NodeState:
        """The least of what is free from the first step until `end`."""
        if not self.least:
            self.least.append(self.states[0])
        last = max(0, bisect_left(self.times, end) - 1)
        while len(self.least) <= last:
            self.least.append(lesser(self.least[-1], self.states[len(self.least)]))
        return self.least[last]

    def split(self, at: float) -> int:
        """The index of the step that begins at `at`, made if there was none; 0 when that is before the first."""
        index = bisect_right(self.times, at) - 1
        if index < 0 or self.times[index] == at:
            return max(index, 0)
        self.times.insert(index + 1, at)
        self.states.insert(index + 1, self.states[index])
        return index + 1

    def change(self, start: float, end: float, member: Member, slots: Sequence[int], sign: int) -> None:
        """Give (`sign` 1) or take (-1) what the member has, from `start` until `end`."""
        first = self.split(start)
        last = self.split(end) if end < inf else len(self.states)
        for index in range(first, last):
            self.states[index] = changed(self.states[index], member, slots, sign)
        self.least.clear()


class Timeline:
    """Free capacity from `now` on, node by node. Nodes that nobody asks about cost nothing."""

    def __init__(
        self,
        now: float,
        free: Callable[[str], NodeState],
        releases: Callable[[str], Iterable[Release]],
        slots_of: SlotsOf,
        *,
        overlap_s: float = 0.0,
    ) -> None:
        """Who would end less than `overlap_s` after something begins does not meet it."""
        self.now = now
        self.overlap_s = overlap_s
        self._soon = nextafter(now, inf)
        self._free = free
        self._releases = releases
        self._slots_of = slots_of
        self._steps: dict[str, Steps] = {}
        self._reserved: dict[str, None] = {}

    def branch(self) -> "Timeline":
        """A copy to try the members of a gang on."""
        copy = Timeline(self.now, self._free, self._releases, self._slots_of, overlap_s=self.overlap_s)
        copy._steps = {name: Steps(list(s.times), list(s.states)) for name, s in self._steps.items()}
        copy._reserved = self._reserved.copy()
        return copy

    def until(self, name: str, end: float) -> NodeState:
        """What a job may have of the node that starts now and ends at `end`, delaying no reservation."""
        return self.steps(name).until(end - self.overlap_s)

    @property
    def promises(self) -> bool:
        """Whether anything is promised to anybody."""
        return bool(self._reserved)

    def reserves(self, name: str) -> bool:
        """Whether anything of the node is promised to anybody; if not, all that is free is open."""
        return name in self._reserved

    def take(self, member: Member, end: float) -> None:
        """A job starts now and holds this until `end`. To be called before the free capacity changes."""
        if member.node in self._steps:
            self._steps[member.node].change(self.now, max(end, self._soon), member, self._slots_of(member), -1)

    def give(self, member: Member) -> None:
        """A running job would give this back now, not when it is expected to. Before the free capacity changes."""
        if member.node in self._steps:
            ends = (max(one.at, self._soon) for one in self._releases(member.node) if one.member is member)
            self._steps[member.node].change(self.now, next(ends, inf), member, self._slots_of(member), 1)

    def reserve(self, member: Member, start: float, end: float) -> None:
        """Promise this from `start` until `end`."""
        self.steps(member.node).change(start, end, member, self._slots_of(member), -1)
        self._reserved[member.node] = None

    def cancel(self, member: Member, start: float, end: float) -> None:
        """Take back a promise that was made with the same arguments."""
        self.steps(member.node).change(start, end, member, self._slots_of(member), 1)

    def times(self, names: Iterable[str]) -> list[float]:
        """Every moment from now on at which what is free changes on one of the nodes."""
        return sorted({at for name in names for at in self.steps(name).times})

    def window(self, name: str, start: float, end: float) -> NodeState:
        """The least of what is free on the node from `start` until `end`."""
        steps = self.steps(name)
        first = max(0, bisect_right(steps.times, start) - 1)
        least = steps.states[first]
        for index in range(first + 1, len(steps.times)):
            if steps.times[index] >= end - self.overlap_s:
                break
            least = lesser(least, steps.states[index])
        return least

    def free_since(self, name: str, at: float, slots: Sequence[int], share_milli: int) -> dict[int, float]:
        """From when on each of these slots has the share free without a break until `at`.

        A promise best takes those that come free last: what is idle before is then left for others to fill.
        """
        steps = self.steps(name)
        last = max(0, bisect_right(steps.times, at) - 1)
        since = dict.fromkeys(slots, steps.times[0])
        for index in range(last + 1):
            for slot in slots:
                if steps.states[index].slots[slot].free_milli < share_milli:
                    since[slot] = steps.times[min(index + 1, last)]
        return since

    def earliest(
        self, name: str, duration_s: float, fits: Callable[[NodeState], bool], before: float = inf
    ) -> float | None:
        """The first moment before `before` from which on the node has room for `duration_s`, None when it never has."""
        steps, index = self.steps(name), 0
        times, states = steps.times, steps.states
        count = len(times)
        while index < count and times[index] < before:
            if not fits(states[index]):
                index += 1
                continue
            bad = self._first_bad(steps, index, times[index] + duration_s, fits)
            if bad is None:
                return times[index]
            # What does not fit into one step does not start before it either, if it would run into it.
            index = index + 1 if fits(states[bad]) else bad + 1
        return None

    def _first_bad(self, steps: Steps, first: int, end: float, fits: Callable[[NodeState], bool]) -> int | None:
        """The step before `end` with which what fits into the first step fits no longer; None if it always does."""
        times, states = steps.times, steps.states
        least = states[first]
        for index in range(first + 1, bisect_left(times, end - self.overlap_s)):
            state = states[index]
            host = state.cpu_milli >= least.cpu_milli and state.memory_mib >= least.memory_mib
            if host and state.slots is least.slots:
                continue
            lower = lesser(least, state)
            if lower is not least and not fits(lower):
                return index
            least = lower
        return None

    def steps(self, name: str) -> Steps:
        """The steps of a node."""
        found = self._steps.get(name)
        if found is None:
            found = self._steps[name] = Steps([self.now], [self._free(name)])
            for release in sorted(self._releases(name), key=lambda one: one.at):
                if release.at < inf:
                    self._give_back(found, release)
        return found

    def _give_back(self, steps: Steps, release: Release) -> None:
        """Releases come in the order of time, so that each adds one step to the end; what is overdue is held as yet."""
        state = changed(steps.states[-1], release.member, self._slots_of(release.member), 1)
        at = max(release.at, self._soon)
        if at > steps.times[-1]:
            steps.times.append(at)
            steps.states.append(state)
        else:
            steps.states[-1] = state


def changed(state: NodeState, member: Member, slots: Sequence[int], sign: int) -> NodeState:
    """The state with what the member has given back (`sign` 1) or taken (-1); `slots` are those of its grants."""
    left = state.slots
    if slots:
        changing = list(left)
        for index, grant in zip(slots, member.grants, strict=True):
            slot = changing[index]
            changing[index] = slot._replace(
                free_milli=slot.free_milli + sign * grant.share_milli,
                free_mib=None if slot.free_mib is None else slot.free_mib + sign * (grant.memory_mib or 0),
                tenant=_tenant(slot, grant, sign),
            )
        left = tuple(changing)
    return NodeState(
        left,
        state.cpu_milli + sign * member.cpu_milli,
        state.memory_mib + sign * member.host_memory_mib,
        state.labels,
        state.driver,
        state.cuda,
        state.status,
    )


def _tenant(slot: Slot, grant: Grant, sign: int) -> str | None:
    """Whom a device that serves one user at a time serves after the change; the last to go leaves it to anybody."""
    if sign < 0 or grant.tenant is None:
        return grant.tenant or slot.tenant
    return None if slot.free_milli + grant.share_milli == MILLI_PER_DEVICE else slot.tenant


def lesser(one: NodeState, other: NodeState) -> NodeState:
    """What is free in both states of a node; `one` itself when that is no more than the other."""
    slots, cpu_milli, memory_mib = one.slots, one.cpu_milli, one.memory_mib
    if slots is not other.slots:
        slots = tuple(map(_lesser_slot, slots, other.slots))
        if slots == one.slots:
            slots = one.slots
    cpu_milli = min(cpu_milli, other.cpu_milli)
    memory_mib = min(memory_mib, other.memory_mib)
    if slots is one.slots and cpu_milli == one.cpu_milli and memory_mib == one.memory_mib:
        return one
    return NodeState(slots, cpu_milli, memory_mib, one.labels, one.driver, one.cuda, one.status)


def _lesser_slot(one: Slot, other: Slot) -> Slot:
    if one.free_milli <= other.free_milli and (one.free_mib or 0) <= (other.free_mib or 0):
        return one
    free_mib = None if one.free_mib is None or other.free_mib is None else min(one.free_mib, other.free_mib)
    return one._replace(free_milli=min(one.free_milli, other.free_milli), free_mib=free_mib)
