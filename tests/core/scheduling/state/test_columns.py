"""The columns say of a node what the model says of it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Fit, fit
from corral.core.model.placing.state import NodeState
from corral.core.scheduling.state.columns import Columns, NodeCapacity, RowChanges, RowGrant, Shape
from tests.core.scheduling.fleet import fleets, free, requests, rows, states


def fitting(columns: Columns, request: Request) -> list[tuple[int, ...] | None]:
    """For each row the slots that serve the request, None where it does not fit."""
    return by_shape(columns, Shape(request, columns))


def by_shape(columns: Columns, shape: Shape) -> list[tuple[int, ...] | None]:
    everywhere = np.arange(len(columns), dtype=np.intp)
    hosts = set(shape.serving(columns, everywhere).tolist())
    able = [tuple(np.flatnonzero(slots).tolist()) for slots in shape.able_slots(columns, everywhere)]
    return [slots if row in hosts and len(slots) >= shape.request.devices else None for row, slots in enumerate(able)]


def plainly(columns: Columns, request: Request) -> list[tuple[int, ...] | None]:
    answers = (fit(request, columns.state(row)) for row in range(len(columns)))
    found = [answer.slots if isinstance(answer, Fit) and not answer.parts_milli else None for answer in answers]
    return [() if slots is not None and not request.devices else slots for slots in found]


@given(fleets, requests)
def test_columns_fit_exactly_what_the_model_fits(fleet: list[NodeCapacity], request: Request) -> None:
    columns = Columns(fleet)
    found = fitting(columns, request)
    if not request.devices:
        found = [None if slots is None else () for slots in found]
    assert found == plainly(columns, request)


@given(fleets)
def test_a_row_gives_back_the_state_it_was_made_of(fleet: list[NodeCapacity]) -> None:
    columns = Columns(fleet)
    assert [columns.state(row) for row in range(len(columns))] == [node.state._replace(disk_mib=0) for node in fleet]


@given(fleets, states, requests)
def test_a_shape_learns_the_kinds_that_came_after_it(
    fleet: list[NodeCapacity], state: NodeState, request: Request
) -> None:
    columns = Columns(fleet)
    shape = Shape(request, columns)
    by_shape(columns, shape)
    width = columns.width
    columns.put("n0", state._replace(slots=state.slots[:width]))
    found = by_shape(columns, shape)
    assert [slots is not None for slots in found] == [slots is not None for slots in plainly(columns, request)]
    able = shape.able_slots(columns, np.arange(len(columns), dtype=np.intp))
    for row, slots in enumerate(found):
        if slots is not None:
            assert shape.able_slots_on(columns, row) == np.flatnonzero(able[row]).tolist()


def test_what_is_taken_is_gone_and_what_is_given_back_is_there_again() -> None:
    columns = Columns(rows(free(2, cpu=4000)))
    before = columns.state(0)
    taking = RowGrant(0, (1,), 250, (0,), 1000, 2048)
    columns.take(taking)
    after = columns.state(0)
    assert [slot.free_milli for slot in after.slots] == [1000, 750]
    assert (after.cpu_milli, before.memory_mib - after.memory_mib) == (3000, 2048)
    columns.give(taking)
    assert columns.state(0) == before


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.booleans()), max_size=12))
def test_a_rollback_undoes_everything_since_its_mark_and_nothing_before(steps: list[tuple[int, int, bool]]) -> None:
    columns = Columns(rows(free(3), free(3)._replace(members_left=20)))
    columns.take(RowGrant(0, (0,), 300, (0,), 10, 1))
    outer_state = [columns.state(0), columns.state(1)]
    outer = columns.mark()
    for row, slot, undone in steps:
        before = columns.state(row)
        inner = columns.mark() if undone else None
        columns.take(RowGrant(row, (slot,), 10, (0,), 1, 1))
        assert columns.state(row).cpu_milli == before.cpu_milli - 1
        if inner is not None:
            columns.rollback(inner)
            assert columns.state(row) == before
    columns.rollback(outer)
    assert [columns.state(0), columns.state(1)] == outer_state


def test_places_for_members_are_counted_where_a_node_has_a_bound_and_kept_for_no_fleet_without_one() -> None:
    columns = Columns(rows(free(3), free(3)))
    assert columns.members_left is None
    columns.take(RowGrant(1, (0,), 1000, (0,), 10, 1))
    columns.put("n1", columns.state(1)._replace(members_left=1))
    columns.take(RowGrant(0, (0,), 1000, (0,), 10, 1))
    columns.take(RowGrant(1, (1,), 1000, (0,), 10, 1))
    assert [columns.state(row).members_left for row in (0, 1)] == [None, 0]
    assert fitting(columns, Request()) == [(1, 2), None]


def test_a_reader_hears_of_every_row_touched_since_it_last_asked() -> None:
    changed_rows = RowChanges(4)
    place = changed_rows.place
    for row in (1, 2, 1):
        changed_rows.add(row)
    assert sorted(set(changed_rows.since(place).tolist())) == [1, 2]  # type: ignore[union-attr]
    assert changed_rows.since(changed_rows.place).tolist() == []  # type: ignore[union-attr]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(0, 60))
def test_a_reader_is_told_all_it_missed_or_that_it_missed_too_much(added: list[int], seen: int) -> None:
    changed_rows = RowChanges(8)
    for row in added[:seen]:
        changed_rows.add(row)
    place = changed_rows.place
    for row in added[seen:]:
        changed_rows.add(row)
    missed = changed_rows.since(place)
    assert missed is None if len(added[seen:]) > 8 else missed is not None and missed.tolist() == added[seen:]


def test_columns_say_when_they_remember_more_kinds_than_there_are_nodes() -> None:
    columns = Columns(rows(free(2)))
    for number in range(100):
        columns.put("n0", free(2)._replace(labels=(("day", str(number)),)))
    assert columns.crowded
    assert not Columns(rows(columns.state(0))).crowded
