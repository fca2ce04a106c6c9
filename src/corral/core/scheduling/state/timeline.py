"""Free capacity over time: when devices become free, and what is promised to waiting jobs.

The free capacity of a node is a step function of time from now on. It rises when a running job is expected to end, and
falls when a promise begins. A job may start now if it fits into every step that its run would overlap.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, nextafter

from corral.core.model.placing.allocation import Grant, Member
from corral.core.model.placing.state import NodeState, Slot, with_amounts

SAME_MOMENT_S = 0.5
"""Times that differ by less than this count as equal: every job starts and ends a little later than planned."""

SlotsOf = Callable[[Member], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Release:
    """The grants of a running job on one node, and the time of their expected release (Unix seconds)."""

    at: float
    member: Member


@dataclass(slots=True)
class Steps:
    """One node's free capacity: `states[i]` from `times[i]` on; `least[i]` is the minimum of the first i + 1 states."""

    times: list[float]
    states: list[NodeState]
    least: list[NodeState] = field(default_factory=list)

    def until(self, end: float) -> NodeState:
        """The minimum of the free capacity from the first step until `end`."""
        if not self.least:
            self.least.append(self.states[0])
        last = max(0, bisect_left(self.times, end) - 1)
        while len(self.least) <= last:
            self.least.append(lesser(self.least[-1], self.states[len(self.least)]))
        return self.least[last]

    def split(self, at: float) -> int:
        """The index of the step that begins at `at`, inserted if it is missing; 0 if `at` is before the first step."""
        index = bisect_right(self.times, at) - 1
        if index < 0 or self.times[index] == at:
            return max(index, 0)
        self.times.insert(index + 1, at)
        self.states.insert(index + 1, self.states[index])
        return index + 1

    def change(self, start: float, end: float, member: Member, slots: Sequence[int], sign: int) -> None:
        """Add (`sign` 1) or subtract (-1) the grants of the member, from `start` until `end`."""
        first = self.split(start)
        last = self.split(end) if end < inf else len(self.states)
        for index in range(first, last):
            self.states[index] = changed(self.states[index], member, slots, sign)
        self.least.clear()


class Timeline:
    """Free capacity from `now` on, by node. The steps of a node are computed on first use.

    `promised` are the nodes on which anything is promised to a job. On all other nodes everything free is open.
    """

    def __init__(
        self,
        now: float,
        free: Callable[[str], NodeState],
        releases: Callable[[str], Iterable[Release]],
        slots_of: SlotsOf,
        *,
        overlap_s: float = 0.0,
    ) -> None:
        """A run that ends less than `overlap_s` after a promise begins does not count as overlapping it."""
        self.now = now
        self.overlap_s = overlap_s
        self._soon = nextafter(now, inf)
        self._free = free
        self._releases = releases
        self._slots_of = slots_of
        self._steps: dict[str, Steps] = {}
        self.promised: dict[str, None] = {}

    def branch(self) -> "Timeline":
        """A copy for trying out the members of a gang."""
        copy = Timeline(self.now, self._free, self._releases, self._slots_of, overlap_s=self.overlap_s)
        copy._steps = {name: Steps(list(s.times), list(s.states)) for name, s in self._steps.items()}
        copy.promised = self.promised.copy()
        return copy

    def until(self, name: str, end: float) -> NodeState:
        """The part of the node that a job from now until `end` may use without delaying a promise."""
        return self.steps(name).until(end - self.overlap_s)

    def take(self, member: Member, end: float) -> None:
        """Subtract a job that starts now and ends at `end`. Call it before the draft's free capacity changes."""
        if member.node in self._steps:
            self._steps[member.node].change(self.now, max(end, self._soon), member, self._slots_of(member), -1)

    def give(self, member: Member) -> None:
        """Release a running job now instead of at its expected end. Call it before the free capacity changes."""
        if member.node in self._steps:
            ends = (max(one.at, self._soon) for one in self._releases(member.node) if one.member is member)
            self._steps[member.node].change(self.now, next(ends, inf), member, self._slots_of(member), 1)

    def promise(self, member: Member, start: float, end: float) -> None:
        """Promise the member its grants from `start` until `end`."""
        self.steps(member.node).change(start, end, member, self._slots_of(member), -1)
        self.promised[member.node] = None

    def withdraw(self, member: Member, start: float, end: float) -> None:
        """Undo a promise that was made with the same arguments."""
        self.steps(member.node).change(start, end, member, self._slots_of(member), 1)

    def times(self, names: Iterable[str]) -> list[float]:
        """Every time from now on at which the free capacity of one of the nodes changes, in order."""
        return sorted({at for name in names for at in self.steps(name).times})

    def window(self, name: str, start: float, end: float) -> NodeState:
        """The minimum of the node's free capacity from `start` until `end`."""
        steps = self.steps(name)
        first = max(0, bisect_right(steps.times, start) - 1)
        least = steps.states[first]
        for index in range(first + 1, len(steps.times)):
            if steps.times[index] >= end - self.overlap_s:
                break
            least = lesser(least, steps.states[index])
        return least

    def free_since(self, name: str, at: float, slots: Sequence[int], share_milli: int) -> dict[int, float]:
        """The time for each of these slots since when the share is free without interruption until `at`.

        A promise should take the slots that become free last: the others stay available for backfill.
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
        """The first time before `before` from which the state `fits` for `duration_s`; None if there is none."""
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
            # If the job does not fit into a step, it cannot start before that step and run into it.
            index = index + 1 if fits(states[bad]) else bad + 1
        return None

    def _first_bad(self, steps: Steps, first: int, end: float, fits: Callable[[NodeState], bool]) -> int | None:
        """The first step before `end` that breaks a fit which starts at step `first`; None if there is none."""
        times, states = steps.times, steps.states
        least = states[first]
        for index in range(first + 1, bisect_left(times, end - self.overlap_s)):
            state = states[index]
            if state.slots is least.slots and _host_covers(state, least):
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
        """Add one release, as a step at the end: releases come in order of time. An overdue one is still held."""
        state = changed(steps.states[-1], release.member, self._slots_of(release.member), 1)
        at = max(release.at, self._soon)
        if at > steps.times[-1]:
            steps.times.append(at)
            steps.states.append(state)
        else:
            steps.states[-1] = state


def changed(state: NodeState, member: Member, slots: Sequence[int], sign: int) -> NodeState:
    """The state after the member has released (`sign` 1) or taken (-1) its grants, which are in `slots`."""
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
    host = (
        state.cpu_milli + sign * member.cpu_milli,
        state.memory_mib + sign * member.host_memory_mib,
        state.disk_mib + sign * member.disk_mib,
        None if state.members_left is None else state.members_left + sign,
    )
    return with_amounts(state, left, host)


def _host_covers(state: NodeState, least: NodeState) -> bool:
    """Whether `state` has at least as much of the host free as `least`."""
    return (
        state.cpu_milli >= least.cpu_milli
        and state.memory_mib >= least.memory_mib
        and state.disk_mib >= least.disk_mib
        and (state.members_left is None or least.members_left is None or state.members_left >= least.members_left)
    )


def _tenant(slot: Slot, grant: Grant, sign: int) -> str | None:
    """The user of a device that serves one user at a time, after the change; None if nothing is allocated any more."""
    if sign < 0 or grant.tenant is None:
        return grant.tenant or slot.tenant
    return None if slot.free_milli + grant.share_milli == slot.open_milli else slot.tenant


def lesser(one: NodeState, other: NodeState) -> NodeState:
    """The minimum of two states of a node, amount by amount; `one` itself if no amount of `other` is smaller."""
    slots, cpu_milli, memory_mib, disk_mib = one.slots, one.cpu_milli, one.memory_mib, one.disk_mib
    if slots is not other.slots:
        slots = tuple(map(_lesser_slot, slots, other.slots))
        if slots == one.slots:
            slots = one.slots
    cpu_milli = min(cpu_milli, other.cpu_milli)
    memory_mib = min(memory_mib, other.memory_mib)
    disk_mib = min(disk_mib, other.disk_mib)
    members_left = one.members_left
    if members_left is not None and other.members_left is not None:
        members_left = min(members_left, other.members_left)
    same_host = cpu_milli == one.cpu_milli and memory_mib == one.memory_mib and disk_mib == one.disk_mib
    if slots is one.slots and same_host and members_left == one.members_left:
        return one
    return with_amounts(one, slots, (cpu_milli, memory_mib, disk_mib, members_left))


def _lesser_slot(one: Slot, other: Slot) -> Slot:
    if one.free_milli <= other.free_milli and (one.free_mib or 0) <= (other.free_mib or 0):
        return one
    free_mib = None if one.free_mib is None or other.free_mib is None else min(one.free_mib, other.free_mib)
    return one._replace(free_milli=min(one.free_milli, other.free_milli), free_mib=free_mib)
