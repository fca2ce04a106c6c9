"""The timeline against a slow and obvious reading: a list of who holds what from when until when."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.placing.allocation import Grant, Member
from corral.core.model.placing.state import NodeState, Slot
from corral.core.scheduling.state.timeline import Release, Timeline, lesser

SLOTS = 3
CPUS = 8
Span = tuple[float, float, int, int]
"""From when until when, which slot (SLOTS is none), how many CPUs."""


def member(slot: int, cpus: int) -> Member:
    grants = () if slot == SLOTS else (Grant(f"GPU-{slot}", 500, 100),)
    return Member("box", grants, cpu_milli=cpus)


def state(taken: list[Span]) -> NodeState:
    """What is left when all of these are held at once."""
    slots = [
        Slot("GPU", 1000, None, 1000 - 500 * held, 1000 - 100 * held)
        for slot in range(SLOTS)
        for held in [sum(one[2] == slot for one in taken)]
    ]
    return NodeState(tuple(slots), CPUS - sum(one[3] for one in taken), 0)


def slots_of(one: Member) -> tuple[int, ...]:
    return tuple(int(grant.uuid.removeprefix("GPU-")) for grant in one.grants)


def at(taken: list[Span], moment: float) -> NodeState:
    return state([one for one in taken if one[0] <= moment < one[1]])


def least(taken: list[Span], start: float, end: float) -> NodeState:
    moments = [start, *(one[0] for one in taken), *(one[1] for one in taken)]
    states = [at(taken, moment) for moment in moments if start <= moment < end or moment == start]
    found = states[0]
    for other in states[1:]:
        found = lesser(found, other)
    return found


TIMES = st.integers(0, 12).map(float)
RUNNING = st.lists(
    st.tuples(st.just(-1.0), st.integers(1, 12).map(float), st.integers(0, SLOTS), st.integers(0, 2)), max_size=5
)
RESERVED = st.lists(st.tuples(TIMES, st.integers(1, 8), st.integers(0, SLOTS), st.integers(0, 2)), max_size=5)


def built(running: list[Span], reserved: list[tuple[float, int, int, int]]) -> tuple[Timeline, list[Span]]:
    releases = [Release(end, member(slot, cpus)) for _, end, slot, cpus in running]
    timeline = Timeline(0.0, lambda _: state(running), lambda _: releases, slots_of)
    spans = list(running)
    for start, length, slot, cpus in reserved:
        timeline.promise(member(slot, cpus), start, start + length)
        spans.append((start, start + length, slot, cpus))
    return timeline, spans


@given(RUNNING, RESERVED, TIMES, st.integers(1, 10))
def test_a_window_is_the_least_of_every_moment_in_it(
    running: list[Span], reserved: list[tuple[float, int, int, int]], start: float, length: int
) -> None:
    timeline, spans = built(running, reserved)
    assert timeline.window("box", start, start + length) == least(spans, start, start + length)
    assert timeline.until("box", start + length) == least(spans, 0.0, start + length)


@given(RUNNING, RESERVED, st.integers(1, 6), st.integers(1, CPUS))
def test_the_earliest_start_is_the_first_at_which_the_whole_window_fits(
    running: list[Span], reserved: list[tuple[float, int, int, int]], length: int, cpus: int
) -> None:
    timeline, spans = built(running, reserved)

    def fits(one: NodeState) -> bool:
        return one.cpu_milli >= cpus and one.slots[0].free_milli >= 500

    moments = sorted({0.0, *(one[0] for one in spans if one[0] > 0), *(one[1] for one in spans)})
    expected = next((moment for moment in moments if fits(least(spans, moment, moment + length))), None)
    assert timeline.earliest("box", float(length), fits) == expected


@given(RUNNING, RESERVED)
def test_a_promise_that_is_taken_back_leaves_no_trace(
    running: list[Span], reserved: list[tuple[float, int, int, int]]
) -> None:
    timeline, spans = built(running, reserved)
    timeline.promise(member(0, 1), 3.0, 7.0)
    timeline.withdraw(member(0, 1), 3.0, 7.0)
    for moment in range(15):
        assert timeline.window("box", moment, moment + 1) == least(spans, moment, moment + 1)


def test_what_is_never_given_back_is_never_free() -> None:
    releases = [Release(inf, member(0, 0))]
    timeline = Timeline(0.0, lambda _: state([(-1.0, inf, 0, 0)]), lambda _: releases, slots_of)
    assert timeline.earliest("box", 1.0, lambda one: one.slots[0].free_milli == 1000) is None


def test_a_slot_counts_as_free_only_since_its_last_use() -> None:
    releases = [Release(5.0, member(0, 0)), Release(9.0, member(1, 0))]
    timeline = Timeline(0.0, lambda _: state([(-1.0, 5.0, 0, 0), (-1.0, 9.0, 1, 0)]), lambda _: releases, slots_of)
    assert timeline.free_since("box", 10.0, (0, 1, 2), 1000) == {0: 5.0, 1: 9.0, 2: 0.0}


def test_what_is_overdue_is_not_free_before_it_is_given_back() -> None:
    timeline, _ = built([(0.0, 10.0, 0, 0)], [])
    late = Timeline(20.0, timeline._free, timeline._releases, slots_of)
    assert late.until("box", 20.0) == state([(0.0, 10.0, 0, 0)])
    assert late.window("box", 21.0, 22.0) == state([])


def test_a_job_that_should_be_over_at_once_is_taken_off_what_is_free_now() -> None:
    timeline, _ = built([], [])
    timeline.steps("box")
    timeline.take(member(1, 2), timeline.now)
    assert timeline.until("box", inf) == state([(0.0, 1.0, 1, 2)])


def test_what_a_running_job_would_give_back_now_is_free_from_now_on() -> None:
    one = member(0, 4)
    timeline = Timeline(0.0, lambda _: state([(0.0, 1.0, 0, 4)]), lambda _: [Release(5.0, one)], slots_of)
    timeline.steps("box")
    timeline.give(one)
    assert timeline.until("box", inf) == state([])
