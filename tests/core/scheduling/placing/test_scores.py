"""Each score prefers what its name says."""

import pytest

from corral.core.model.jobs.job import Request
from corral.core.scheduling.placing.ranking import Placer
from corral.core.scheduling.placing.scores import (
    Availability,
    BestFit,
    EarlierFirst,
    LeastLoaded,
    Pack,
    Readings,
    RoundRobin,
    Score,
    spread,
    weighted,
)
from corral.core.scheduling.state.columns import Columns
from tests.core.scheduling.fleet import free, rows, shares


def best(columns: Columns, score: Score, request: Request | None = None) -> tuple[int, tuple[int, ...]]:
    found = Placer(columns, score).best(request or Request(share_milli=250))
    assert found is not None
    return found.row, found.slots


def test_pack_prefers_the_fuller_node_and_on_it_the_fuller_device() -> None:
    columns = Columns(rows(free(2), shares(1000, 400)))
    assert best(columns, Pack()) == (1, (1,))


def test_spread_prefers_the_emptier_node() -> None:
    columns = Columns(rows(shares(1000, 400), free(2)))
    assert best(columns, spread())[0] == 1


def test_best_fit_leaves_the_least_of_cpu_and_gpu_together() -> None:
    columns = Columns(rows(shares(1000, 1000, cpu=1000), shares(500, 0, cpu=64_000), shares(600, 0, cpu=1000)))
    assert best(columns, BestFit(64_000, 2000))[0] == 2


def test_best_fit_takes_near_equals_for_equal_and_keeps_the_order() -> None:
    columns = Columns(rows(shares(1000, 1000), shares(995, 1000)))
    assert best(columns, BestFit(128_000, 8000))[0] == 0


def test_round_robin_takes_turns() -> None:
    columns = Columns(rows(free(2), free(2), free(2)))
    turns = RoundRobin(columns)
    placer = Placer(columns, turns)
    seen = []
    for _ in range(4):
        found = placer.best(Request(share_milli=100))
        assert found is not None
        columns.take(found)
        seen.append(found.row)
        turns.set_turn(found.row + 1)
    assert seen == [0, 1, 2, 0]


def test_availability_prefers_the_idlest_device_and_unread_ones_come_last() -> None:
    columns = Columns(rows(free(3), free(3)))
    readings = Readings(columns)
    readings.observe(1, 0, 0.5, 10)
    readings.observe(1, 2, 0.9, 5)
    assert best(columns, Availability(readings)) == (1, (2,))
    assert best(columns, Availability(readings), Request()) == (1, (2,))


def test_a_new_reading_changes_a_choice_that_was_remembered() -> None:
    columns = Columns(rows(free(2)))
    readings = Readings(columns)
    placer = Placer(columns, Availability(readings))
    readings.observe(0, 0, 0.9, 5)
    first = placer.best(Request(share_milli=100))
    readings.observe(0, 1, 1.0, 0)
    second = placer.best(Request(share_milli=100))
    assert first is not None
    assert second is not None
    assert (first.slots, second.slots) == ((0,), (1,))


def test_least_loaded_prefers_the_device_that_works_least() -> None:
    columns = Columns(rows(free(2)))
    readings = Readings(columns)
    readings.observe(0, 0, 0.2, 90)
    readings.observe(0, 1, 0.1, 3)
    assert best(columns, LeastLoaded(readings)) == (0, (1,))


def test_of_devices_that_work_alike_the_one_of_which_least_is_handed_out_is_least_loaded() -> None:
    columns = Columns(rows(shares(500, 800, 300)))
    readings = Readings(columns)
    for slot in range(3):
        readings.observe(0, slot, 0.5, 20)
    assert best(columns, LeastLoaded(readings)) == (0, (1,))
    readings.observe(0, 2, 0.5, 19)
    assert best(columns, LeastLoaded(readings)) == (0, (2,))


def test_a_device_that_does_not_tell_its_utilisation_comes_after_one_that_works_as_hard_as_it_can() -> None:
    columns = Columns(rows(free(2)))
    readings = Readings(columns)
    readings.observe(0, 0, 0.9, None)
    readings.observe(0, 1, 0.1, 100)
    assert best(columns, LeastLoaded(readings), Request()) == (0, (1,))


@pytest.mark.parametrize(
    ("given", "following"), [((2,), 3), ((3,), 0), ((0, 1), 2), ((0, 3), 1), ((1, 2, 3), 0), ((0, 1, 2, 3), 0)]
)
def test_the_turn_of_a_node_goes_on_after_the_last_device_counted_round(given: tuple[int, ...], following: int) -> None:
    columns = Columns(rows(free(4)))
    turns = RoundRobin(columns)
    turns.handed_out(columns, 0, given)
    assert best(columns, turns, Request()) == (0, (following,))


def test_a_heavier_weight_wins() -> None:
    columns = Columns(rows(free(2), shares(1000, 400)))
    assert best(columns, weighted([(1.0, Pack()), (0.1, EarlierFirst())]))[0] == 1
    assert best(columns, weighted([(0.1, Pack()), (1.0, EarlierFirst())]))[0] == 0


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        weighted([(-1.0, Pack())])
