"""The best place, found again from what was remembered, is the best place found afresh."""

from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Cause, Fit, fit, preference
from corral.core.scheduling.placing.fragmentation import Fragmentation
from corral.core.scheduling.placing.ranking import PREFERENCE, Placer
from corral.core.scheduling.placing.scores import BestFit, Granularity, Pack, PlacementOptions, Score, spread
from corral.core.scheduling.placing.worth.learner import Learner
from corral.core.scheduling.placing.worth.values import Prices, WorthScore
from corral.core.scheduling.state.columns import Columns, NodeCapacity, RowGrant, Shape
from tests.core.scheduling.fleet import fleets, free, requests, rows, shares, states

MIX = [(Request(share_milli=190, cpu_milli=500), 3), (Request(cpu_milli=8000), 2), (Request(devices=2), 1)]
SCORES = ["value", "fragmentation", "best-fit", "pack", "spread"]


@cache
def prices() -> Prices:
    """Prices of some fleet: which one does not matter here."""
    return Learner(Columns(rows(free(4), free(2, model="NVIDIA A100-SXM4-80GB")))).settle()


def score(name: str, columns: Columns) -> Score:
    """The score of this name over the columns, its memory fresh."""
    if name == "value":
        return WorthScore(columns, prices())
    plain: dict[str, Score] = {
        "fragmentation": Fragmentation(columns, MIX),
        "best-fit": BestFit(128_000, 8_000),
        "pack": Pack(),
        "spread": spread(),
    }
    return plain[name]


@pytest.mark.parametrize("name", SCORES)
@given(fleet=fleets, wishes=st.lists(st.tuples(requests, st.booleans()), max_size=8))
def test_a_warm_placer_answers_as_a_cold_one(
    name: str, fleet: list[NodeCapacity], wishes: list[tuple[Request, bool]]
) -> None:
    columns = Columns(fleet)
    warm = Placer(columns, score(name, columns))
    held: list[RowGrant] = []
    for request, ends in wishes:
        found = warm.best(request)
        cold = Columns([NodeCapacity(n.name, n.uuids, columns.state(row)) for row, n in enumerate(fleet)])
        assert Placer(cold, score(name, cold)).best(request) == found
        if found is not None:
            columns.take(found)
            held.append(found)
        if ends and held:
            columns.give(held.pop(0))


def plainly_best(columns: Columns, score: Score, request: Request) -> tuple[int, tuple[int, ...]] | None:
    """The row and slots that win when every way to place the request is scored by itself."""
    best: tuple[float, int, tuple[int, ...]] | None = None
    for row in range(len(columns)):
        state = columns.state(row)
        answer = fit(request, state)
        if not isinstance(answer, Fit) or answer.parts_milli:
            continue
        fullest = sorted(answer.slots, key=lambda slot: state.slots[slot].free_milli)
        last = request.split_milli is not None
        if not request.devices:
            ways: list[tuple[int, ...]] = [()]
        elif request.devices == 1 and not request.whole and score.granularity > Granularity.NODES:
            ways = [(slot,) for slot in (reversed(answer.slots) if last else answer.slots)]
        elif last:
            least = state.slots[fullest[0]].free_milli
            ways = [(max(slot for slot in fullest if state.slots[slot].free_milli == least),)]
        else:
            ways = [tuple(fullest[: request.devices])]
        for slots in ways:
            options = PlacementOptions(
                Shape(request, columns),
                np.array([row], dtype=np.intp),
                np.array(slots, dtype=np.intp).reshape(len(slots), 1),
            )
            found = float(score(columns, options)[0]) + PREFERENCE * preference(request, state)
            if best is None or found > best[0]:
                best = found, row, tuple(sorted(slots))
    return None if best is None else best[1:]


@pytest.mark.parametrize("name", SCORES)
@settings(max_examples=40)
@given(
    fleet=st.lists(states, min_size=4, max_size=9).map(lambda found: rows(*found)),
    wishes=st.lists(st.tuples(requests, st.booleans()), max_size=6),
)
def test_what_blocks_bounds_and_parts_find_is_what_scoring_every_way_by_itself_finds(
    name: str, fleet: list[NodeCapacity], wishes: list[tuple[Request, bool]]
) -> None:
    columns = Columns(fleet)
    held: list[RowGrant] = []
    with (
        patch("corral.core.scheduling.placing.ranking.BLOCK_BITS", 1),
        patch("corral.core.scheduling.state.columns.PART", 3),
        patch("corral.core.scheduling.placing.worth.values.FEW", 2),
    ):
        placer = Placer(columns, score(name, columns))
        for request, ends in wishes:
            found = placer.best(request)
            plain = plainly_best(columns, score(name, columns), request)
            assert (None if found is None else (found.row, found.slots)) == plain
            if found is not None:
                columns.take(found)
                held.append(found)
            if ends and held:
                columns.give(held.pop(0))


@given(fleet=fleets, wishes=st.lists(requests, max_size=10))
def test_a_request_is_placed_if_and_only_if_it_fits_somewhere_and_nothing_is_handed_out_twice(
    fleet: list[NodeCapacity], wishes: list[Request]
) -> None:
    columns = Columns(fleet)
    placer = Placer(columns, Pack())
    for request in wishes:
        answers = [fit(request, columns.state(row)) for row in range(len(columns))]
        found = placer.best(request)
        assert (found is None) == (not any(isinstance(answer, Fit) and not answer.parts_milli for answer in answers))
        if found is not None:
            answer = answers[found.row]
            assert isinstance(answer, Fit)
            assert len(set(found.slots)) == request.devices
            assert set(found.slots) <= set(answer.slots)
            columns.take(found)
    for row in range(len(columns)):
        state = columns.state(row)
        assert min([state.cpu_milli, state.memory_mib, *(slot.free_milli for slot in state.slots)]) >= 0
        assert min((slot.free_mib for slot in state.slots if slot.free_mib is not None), default=0) >= 0


@given(fleet=fleets, request=requests, size=st.integers(2, 5), one_node=st.booleans(), apart=st.booleans())
def test_a_gang_has_a_place_for_every_member_or_none(
    fleet: list[NodeCapacity], request: Request, size: int, one_node: bool, apart: bool
) -> None:
    gang = Request(
        devices=request.devices,
        share_milli=request.share_milli,
        cpu_milli=request.cpu_milli,
        models=request.models,
        gang_size=size,
        one_node=one_node,
        spread=apart and not one_node,
    )
    columns = Columns(fleet)
    before = [columns.state(row) for row in range(len(columns))]
    found = Placer(columns, Pack()).place(gang)
    assert [columns.state(row) for row in range(len(columns))] == before
    if found is not None:
        assert len(found) == size
        for taking in found:
            columns.take(taking)
        taken = [columns.state(row) for row in range(len(columns))]
        assert all(state.cpu_milli >= 0 for state in taken)
        assert all(slot.free_milli >= 0 for state in taken for slot in state.slots)
        if one_node:
            assert len({taking.row for taking in found}) == 1
        if gang.spread:
            assert len({taking.row for taking in found}) == size


def test_of_equal_places_the_earlier_node_and_the_lower_slot_win() -> None:
    columns = Columns(rows(free(2), free(2)))
    found = Placer(columns, Pack()).best(Request(share_milli=500))
    assert found is not None
    assert (found.row, found.slots) == (0, (0,))


def test_a_barred_node_is_passed_over() -> None:
    columns = Columns(rows(free(2), free(2)))
    found = Placer(columns, Pack()).best(Request(), excluded=(0,))
    assert found is not None
    assert found.row == 1


def test_a_refusal_names_the_node_that_is_nearest_and_by_how_much() -> None:
    columns = Columns(rows(shares(1000, 250, 0), shares(1000, 1000, 500)))
    misfit = Placer(columns, Pack()).why_not(Request(devices=3))
    assert (misfit.cause, misfit.wanted, misfit.available, misfit.node) == (Cause.ALLOCATED, 3, 2, "n1")
    assert not misfit.never


def test_a_device_that_no_node_has_is_never_to_be_waited_for() -> None:
    columns = Columns(rows(free(2), free(2)))
    misfit = Placer(columns, Pack()).why_not(Request(models=("H100",)))
    assert (misfit.cause, misfit.never) == (Cause.MODEL, True)


def test_a_gang_without_room_is_told_what_its_first_member_without_a_place_lacks() -> None:
    columns = Columns(rows(free(4), shares(1000, 500)))
    before = [columns.state(row) for row in range(2)]
    misfit = Placer(columns, Pack()).why_not(Request(devices=2, gang_size=3))
    assert (misfit.cause, misfit.wanted, misfit.available, misfit.node) == (Cause.ALLOCATED, 2, 1, "n1")
    assert [columns.state(row) for row in range(2)] == before


def test_an_empty_cluster_has_no_place_and_says_so() -> None:
    columns = Columns([])
    assert Placer(columns, Pack()).best(Request()) is None
    assert Placer(columns, Pack()).why_not(Request()).cause is Cause.NO_NODE


def test_a_share_takes_its_part_of_the_devices_memory() -> None:
    state = free(1)
    slot = state.slots[0]._replace(memory_mib=16_000, free_mib=16_000)
    columns = Columns(rows(state._replace(slots=(slot,))))
    found = Placer(columns, Pack()).best(Request(share_milli=250, cpu_milli=2000))
    assert found is not None
    assert (found.grants_mib, found.cpu_milli) == ((4000,), 2000)
    columns.take(found)
    assert columns.state(0).slots[0].free_mib == 12_000


def test_rankings_forget_the_shape_that_was_asked_for_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.core.scheduling.placing.ranking.SHAPES_KEPT", 2)
    columns = Columns(rows(free(8)))
    placer = Placer(columns, Pack())
    for milli in (100, 200, 300, 100, 400, 100):
        found = placer.best(Request(share_milli=milli))
        assert found is not None
        columns.take(found)
    assert np.maximum(columns.free_milli, 0).sum() == 8000 - 1200
