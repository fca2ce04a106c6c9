"""Parts of devices: what fits, what is granted, and that nothing is ever given twice."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.means import Means
from corral.core.model.devices.model_and_profile_match import profile_matches
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.fit import (
    Cause,
    Fit,
    Misfit,
    fit,
    grants_on,
    share_milli_of,
    still_fits,
)
from corral.core.model.placing.split import Strategy
from corral.core.model.placing.state import NodeState, Slot

A100 = Slot("NVIDIA A100-SXM4-80GB", 81920, (8, 0), free_milli=1000, free_mib=81920)
HALF = Request(share_milli=500, split_milli=500)
ONE_AND_A_FIFTH = Request(share_milli=1000, split_milli=1200)


def state(*slots: Slot) -> NodeState:
    return NodeState(slots, 8000, 32768)


def left(milli: int, mib: int | None = None) -> Slot:
    return A100._replace(free_milli=milli, free_mib=81920 * milli // 1000 if mib is None else mib)


def test_a_share_that_one_device_gives_may_come_from_any_that_does() -> None:
    assert fit(HALF, state(left(500), left(400), A100)) == Fit((0, 2))


def test_a_share_that_no_device_gives_is_split() -> None:
    assert fit(HALF, state(left(300), left(300))) == Fit((0, 1), (250, 250))
    assert fit(ONE_AND_A_FIFTH, state(A100, left(800))) == Fit((0, 1), (600, 600))
    assert fit(replace(ONE_AND_A_FIFTH, split=Strategy.FILL), state(A100, left(800))) == Fit((0, 1), (1000, 200))


def test_whole_devices_of_a_share_that_fills_come_first_with_all_of_their_memory() -> None:
    request = Request(share_milli=1000, split_milli=2500, split=Strategy.FILL, memory_mib=4096)
    answer = fit(request, state(left(700), A100, A100))
    assert answer == Fit((1, 2, 0), (1000, 1000, 500))
    assert isinstance(answer, Fit)
    grants = grants_on(request, state(left(700), A100, A100), answer.slots, ("GPU-b", "GPU-c", "GPU-a"))
    assert [(grant.share_milli, grant.memory_mib) for grant in grants] == [(1000, 81920), (1000, 81920), (500, 4096)]


def test_where_fragments_are_refused_the_share_waits_for_a_whole_place() -> None:
    answer = fit(replace(HALF, may_fragment=False), state(left(300), left(300)))
    assert isinstance(answer, Misfit)
    assert (answer.never, answer.eviction_helps) == (False, True)


def test_what_is_granted_in_memory_can_be_less_free_than_the_share() -> None:
    crowded = left(600, mib=8192)
    assert fit(HALF, state(crowded, left(450))) == Fit((0, 1), (100, 400))


def test_more_than_all_devices_can_never_be_given() -> None:
    answer = fit(replace(ONE_AND_A_FIFTH, split_milli=2100), state(A100, A100))
    assert isinstance(answer, Misfit)
    assert answer.never


@pytest.mark.parametrize(
    ("request_", "means", "fits"),
    [
        (HALF, Means.TIMESLICE, True),
        (HALF, Means.MPS, True),
        (HALF, Means.EXCLUSIVE, False),
        (HALF, Means.MIG, False),
        (ONE_AND_A_FIFTH, Means.TIMESLICE, True),
        (ONE_AND_A_FIFTH, Means.MPS, False),
        (Request(devices=2, share_milli=300), Means.TIMESLICE, True),
        (Request(devices=2, share_milli=300), Means.MPS, False),
        (Request(devices=2), Means.MPS, True),
        (Request(), Means.EXCLUSIVE, True),
        (Request(), Means.MPS, True),
        (Request(), Means.MIG, False),
        (Request(means=Means.EXCLUSIVE), Means.TIMESLICE, True),
        (replace(HALF, means=Means.MPS), Means.MPS, True),
        (replace(HALF, means=Means.MPS), Means.TIMESLICE, False),
    ],
)
def test_a_request_goes_to_devices_that_are_shared_as_it_needs(request_: Request, means: Means, fits: bool) -> None:
    answer = fit(request_, state(*[A100._replace(means=means)] * 2))
    assert isinstance(answer, Fit) is fits
    if isinstance(answer, Misfit):
        assert (answer.cause, answer.never) == (Cause.MEANS, True)


def test_a_share_is_never_split_over_mps_devices() -> None:
    mps = left(300)._replace(means=Means.MPS)
    assert isinstance(fit(HALF, state(mps, mps)), Misfit)


def test_a_slice_serves_those_who_name_its_profile_and_nobody_else() -> None:
    part = A100._replace(memory_mib=9728, free_mib=9728, means=Means.MIG, profile="1g.10gb")
    assert fit(Request(mig_profile="1g.10gb"), state(A100, part)) == Fit((1,))
    assert fit(Request(mig_profile="10g"), state(A100, part)) == Fit((1,))
    assert fit(Request(), state(A100, part)) == Fit((0,))
    assert isinstance(fit(Request(mig_profile="2g.20gb"), state(A100, part)), Misfit)


def test_a_device_for_one_user_at_a_time_serves_the_others_afterwards() -> None:
    mps = left(500)._replace(means=Means.MPS, one_user=True, tenant="alice")
    assert isinstance(fit(replace(HALF, tenant="alice"), state(mps)), Fit)
    answer = fit(replace(HALF, tenant="bob"), state(mps))
    assert isinstance(answer, Misfit)
    assert (answer.cause, answer.never, answer.eviction_helps) == (Cause.TENANT, False, True)
    assert grants_on(replace(HALF, tenant="alice"), state(mps), (0,), ("GPU-a",))[0].tenant == "alice"


@pytest.mark.parametrize(
    ("memory_mib", "milli", "counted"), [(20480, 250, 250), (100, 10, 10), (81920, 1000, 1000), (27000, 320, 330)]
)
def test_memory_alone_comes_to_its_part_of_the_device_rounded_down_and_counts_rounded_up(
    memory_mib: int, milli: int, counted: int
) -> None:
    request = Request(share_milli=10, share_of_memory=True, memory_mib=memory_mib)
    assert share_milli_of(request, A100) == milli
    (grant,) = grants_on(request, state(A100), (0,), ("GPU-a",))
    assert (grant.share_milli, grant.memory_mib, grant.counted_milli) == (milli, memory_mib, counted)


@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        (Request(share_milli=100, memory_mib=61440), 750),
        (Request(share_milli=100, memory_percent=40), 400),
        (Request(share_milli=100, cores_percent=80), 800),
        (Request(share_milli=500), 500),
        (Request(), 1000),
    ],
)
def test_a_grant_counts_as_the_largest_part_of_the_device_that_it_has(asked: Request, counted: int) -> None:
    (grant,) = grants_on(asked, state(A100), (0,), ("GPU-a",))
    assert grant.counted_milli == counted


def test_a_split_share_takes_memory_with_each_part() -> None:
    grants = grants_on(ONE_AND_A_FIFTH, state(A100, left(800)), (0, 1), ("GPU-a", "GPU-b"))
    assert grants == (Grant("GPU-a", 600, 49152), Grant("GPU-b", 600, 49152))


def test_a_split_that_was_chosen_is_tested_part_by_part() -> None:
    parts = (Grant("GPU-a", 600, 49152), Grant("GPU-b", 600, 49152))
    assert still_fits(ONE_AND_A_FIFTH, state(A100, left(600)), (0, 1), parts) is None
    # In all there is room, and yet not where it was chosen.
    moved = still_fits(ONE_AND_A_FIFTH, state(A100, left(500)), (0, 1), parts)
    assert moved is not None
    assert moved.cause is Cause.ALLOCATED


slots = st.lists(
    st.builds(
        lambda milli, mib, means: A100._replace(free_milli=milli * 10, free_mib=mib, means=means),
        st.integers(0, 100),
        st.integers(0, 81920),
        st.sampled_from([Means.TIMESLICE, Means.MPS, Means.EXCLUSIVE]),
    ),
    min_size=1,
    max_size=5,
)
asked = st.builds(
    lambda total, strategy, whole: Request(
        share_milli=min(1000, total * 10), split_milli=total * 10, split=strategy, may_fragment=whole
    ),
    st.integers(1, 300),
    st.sampled_from(Strategy),
    st.booleans(),
)


@given(asked, slots)
def test_what_fits_is_granted_whole_and_within_what_is_free(request: Request, free: list[Slot]) -> None:
    answer = fit(request, state(*free))
    if isinstance(answer, Misfit):
        return
    chosen = answer.slots if answer.parts_milli else answer.slots[:1]
    grants = grants_on(request, state(*free), chosen, [str(index) for index in chosen])
    assert sum(grant.share_milli for grant in grants) == request.split_milli
    for index, grant in zip(chosen, grants, strict=True):
        assert 0 < grant.share_milli <= free[index].free_milli
        assert grant.memory_mib is not None
        assert grant.memory_mib <= (free[index].free_mib or 0)
    assert still_fits(request, state(*free), chosen, grants) is None


@pytest.mark.parametrize(("milli", "fits"), [(20, False), (30, True)])
def test_shares_on_mps_are_not_so_small_that_a_daemon_has_too_many_clients(milli: int, fits: bool) -> None:
    request = Request(share_milli=milli, split_milli=milli)
    assert isinstance(fit(request, state(A100._replace(means=Means.MPS))), Fit) is fits


@pytest.mark.parametrize(
    ("wanted", "profile", "answer"),
    [
        ("1g.10gb", "1g.10gb", True),
        ("1G.10GB", "1g.10gb", True),
        ("10g", "1g.10gb", True),
        ("10gb", "1g.10gb", True),
        ("10g", "10g", True),
        ("10g", "1g.10gb+me", True),
        ("1g.10gb", "1g.10gb+me", False),
        ("1g.5gb", "1g.10gb", False),
        ("0g", "1g.10gb", False),
        ("", "10g", False),
    ],
)
def test_a_profile_matches_by_name_or_by_memory(wanted: str, profile: str, answer: bool) -> None:
    assert profile_matches(wanted, profile) is answer
