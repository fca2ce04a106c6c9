"""Where a share of several devices goes if it fills them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import Device, Link, Node
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.fit import fit_memo
from corral.core.model.placing.split import Strategy
from corral.core.model.view import View, ViewDraft
from corral.core.scheduling.placing.node_by_node import choose
from corral.core.scheduling.placing.packing import SCORES, Packer
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import DEFAULT
from corral.core.scheduling.state.capacity import Capacity
from corral.core.scheduling.state.draft import Draft, PlacementRequest
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted, view_of


def filling(milli: int, split: Strategy = Strategy.FILL) -> Request:
    return Request(share_milli=min(1000, milli), split_milli=milli, split=split)


def planned(view: View, request: Request, number: int = 99) -> dict[str, int]:
    """What a job with the request gets of each device, in the order in which it sees them."""
    one = job(number, share_milli=request.share_milli, split_milli=request.split_milli, split=request.split)
    (start,) = Planner(view.advance(submitted(one)), policy=DEFAULT).plan(T0).starts
    return {grant.uuid: grant.share_milli for grant in start.placement.grants}


def after(view: View, number: int, **asked: object) -> View:
    """The view in which such a job runs."""
    view = view.advance(submitted(job(number, **asked)))  # type: ignore[arg-type]
    (start,) = Planner(view, policy=DEFAULT).plan(T0).starts
    return view.advance(started(start))


def small_job(view: View, number: int, milli: int, device: str) -> View:
    return after(view, number, share_milli=milli, device_uuids=(device,))


def test_two_and_a_half_of_an_empty_box_are_two_whole_devices_and_a_half() -> None:
    shares = planned(view_of(observed(box("a", 4))), filling(2500))
    assert list(shares.values()) == [1000, 1000, 500]
    assert list(shares)[:2] == ["GPU-a-0", "GPU-a-1"]


@pytest.mark.parametrize(("split", "totals"), [(Strategy.EVENLY, {600, 800}), (Strategy.FILL, {1000, 400})], ids=str)
def test_a_fifth_and_then_a_whole_and_a_fifth_are_added_up_on_two_devices(split: Strategy, totals: set[int]) -> None:
    view = after(view_of(observed(box("a", 2))), 1, share_milli=200, split_milli=200)
    (small,) = view.allocations.values()
    shares = planned(view, filling(1200, split))
    used = small.placement.grants[0].uuid
    assert {milli + (200 if uuid == used else 0) for uuid, milli in shares.items()} == totals


def test_the_devices_that_a_job_has_whole_are_the_first_it_sees() -> None:
    view = small_job(view_of(observed(box("a", 3))), 1, 500, "GPU-a-0")
    assert planned(view, filling(2500)) == {"GPU-a-1": 1000, "GPU-a-2": 1000, "GPU-a-0": 500}


def test_what_is_left_over_goes_to_a_device_that_others_use_already() -> None:
    view = small_job(view_of(observed(box("a", 4))), 1, 300, "GPU-a-1")
    assert planned(view, filling(2500)) == {"GPU-a-0": 1000, "GPU-a-2": 1000, "GPU-a-1": 500}


def test_a_node_that_gives_the_whole_devices_goes_first_and_then_one_that_breaks_no_free_one() -> None:
    view = view_of(observed(box("a", 2), box("b", 2), box("c", 2)))
    view = small_job(small_job(view, 1, 200, "GPU-a-0"), 2, 200, "GPU-a-1")
    view = small_job(view, 3, 200, "GPU-c-0")
    assert planned(view, filling(1500)) == {"GPU-c-1": 1000, "GPU-c-0": 500}


def test_one_device_alone_is_better_than_parts_of_two_on_another_node() -> None:
    view = view_of(observed(box("a", 2), box("b", 2)))
    view = small_job(small_job(view, 1, 700, "GPU-a-0"), 2, 700, "GPU-a-1")
    plain = choose(Draft(Capacity(ViewDraft(view)), fit_memo()), PlacementRequest(filling(500)))
    assert isinstance(plain, Placement)
    assert len(plain.grants) == 1


def linked_box() -> Node:
    """Four devices, of which 1 and 3 are joined by NVLink."""
    pairs = {1: 3, 3: 1}
    devices = tuple(
        Device(
            f"GPU-{i}",
            i,
            "NVIDIA A100",
            81_920,
            links=(Link(f"GPU-{pairs[i]}", "nvlink"),) if i in pairs else (),
        )
        for i in range(4)
    )
    return Node("n", devices, 64_000, 512 * 1024)


def test_whole_devices_that_are_joined_are_used_together() -> None:
    shares = planned(view_of(observed(linked_box())), filling(2500))
    assert list(shares)[:2] == ["GPU-1", "GPU-3"]


NODES = (box("a", 4), box("b", 2, cpus=8), box("c", 3))
CAPACITY = Capacity(ViewDraft(view_of(observed(*NODES))))
PACKERS = {name: Packer(CAPACITY, ((name, 1.0),)) for name in SCORES}

wishes = st.builds(
    lambda tenths, split, memory, cpu: replace(filling(100 * tenths, split), memory_mib=memory, cpu_milli=cpu),
    st.sampled_from([2, 5, 12, 15, 21, 25]),
    st.sampled_from(Strategy),
    st.sampled_from([None, None, 8192]),
    st.sampled_from([0, 4000]),
)


@given(st.sampled_from(sorted(SCORES)), st.lists(wishes, max_size=8))
def test_by_every_score_shares_are_granted_whole_within_what_is_free(score: str, asked: list[Request]) -> None:
    draft = Draft(CAPACITY, fit_memo())
    for request in asked:
        wanted = PlacementRequest(request)
        plainly, found = choose(draft, wanted), PACKERS[score].choose(draft, wanted)
        assert isinstance(found, Placement) == isinstance(plainly, Placement)
        if isinstance(found, Placement):
            assert sum(grant.share_milli for grant in found.grants) == request.split_milli
            draft.take(found.members)
            left = [slot for node in NODES for slot in draft.free(node.name).slots]
            assert min(slot.free_milli for slot in left) >= 0
            assert min(slot.free_mib or 0 for slot in left) >= 0
