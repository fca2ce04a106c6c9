"""What is left is worth what the expected jobs can make of it."""

import numpy as np

from corral.core.model.devices.device import FIRST_VENDOR
from corral.core.model.jobs.job import Request
from corral.core.scheduling.placing.ranking import Placer
from corral.core.scheduling.placing.worth.values import LEVELS, NOTHING, Prices, Remainders, WorthScore, steps_taken
from corral.core.scheduling.state.columns import Columns, RowGrant
from tests.core.scheduling.fleet import free, rows, shares

CLASS = ("G3", None, None, FIRST_VENDOR)


def prices(worth: list[float], *, core: float = 0.0) -> Prices:
    """One device class with this worth at every remainder, half of it where each core costs `core`."""
    table = np.array([worth, worth]) * np.array([[1.0], [0.5]])
    return Prices(np.array([0.0, core]), np.zeros(2), (CLASS,), table if core else table[[0, 0]])


def straight() -> list[float]:
    return [level / 100 for level in range(LEVELS)]


def best(columns: Columns, score: WorthScore, request: Request) -> tuple[int, tuple[int, ...]]:
    found = Placer(columns, score).best(request)
    assert found is not None
    return found.row, found.slots


def test_a_share_goes_where_what_is_left_is_still_of_use() -> None:
    worth = [1.0 if level >= 50 else 0.0 for level in range(LEVELS)]
    columns = Columns(rows(shares(700, 810, 310)))
    assert best(columns, WorthScore(columns, prices(worth)), Request(share_milli=310)) == (0, (1,))


def test_a_job_with_many_cores_goes_where_cores_would_otherwise_strand() -> None:
    columns = Columns(rows(free(2, cpu=16_000), free(2, cpu=104_000)))
    value = WorthScore(columns, prices(straight(), core=0.1))
    assert best(columns, value, Request(devices=0, cpu_milli=12_000))[0] == 1


def test_equal_worth_goes_to_the_earlier_node() -> None:
    columns = Columns(rows(free(2), free(2)))
    assert best(columns, WorthScore(columns, prices(straight())), Request(share_milli=310)) == (0, (0,))


def test_new_prices_change_a_choice_that_was_remembered() -> None:
    columns = Columns(rows(shares(700, 810, 310)))
    value = WorthScore(columns, prices(straight()))
    placer = Placer(columns, value)
    placer.best(Request(share_milli=310))
    value.use(prices([0.0] * 50 + [1.0] * 51))
    found = placer.best(Request(share_milli=310))
    assert found is not None
    assert found.slots == (1,)


def test_a_device_class_without_a_price_is_worth_what_is_left_of_it() -> None:
    columns = Columns(rows(free(1, model="A100"), free(1)))
    value = WorthScore(columns, prices([0.0] * LEVELS))
    assert best(columns, value, Request(share_milli=900))[0] == 1


def test_worths_are_the_same_however_a_node_came_to_its_state() -> None:
    worth = (np.arange(LEVELS) / 97) ** 1.3
    steps = [RowGrant(0, (slot,), 130, (0,), 1700, 3) for slot in (0, 1, 1, 4, 7)]
    asked = Request(share_milli=370, cpu_milli=900)
    warm = Columns(rows(free(8)))
    value = WorthScore(warm, prices(worth.tolist(), core=0.07))
    placer = Placer(warm, value)
    for step in steps:
        warm.take(step)
        placer.best(asked)
    cold = Columns(rows(warm.state(0)))
    fresh = Placer(cold, WorthScore(cold, prices(worth.tolist(), core=0.07)))
    assert placer.scores(asked).tolist() == fresh.scores(asked).tolist()


def test_a_remainder_is_what_both_share_and_memory_leave() -> None:
    state = free(3)
    a, b, c = (
        slot._replace(memory_mib=10_000, free_mib=mib) for slot, mib in zip(state.slots, (10_000, 2500, 0), strict=True)
    )
    columns = Columns(rows(state._replace(slots=(a, b._replace(free_milli=600), c)), free(1)))
    keys = Remainders(columns).keys(columns, np.arange(2, dtype=np.intp))
    assert keys[0].tolist() == [100, 25, 0]
    assert keys[1, 1:].tolist() == [NOTHING, NOTHING]


def test_a_request_takes_the_larger_of_its_share_and_its_memory() -> None:
    assert steps_taken(Request(share_milli=255), CLASS) == 26
    assert steps_taken(Request(share_milli=100, memory_mib=5000), ("G3", 10_000, None, FIRST_VENDOR)) == 50
    assert steps_taken(Request(share_milli=100, memory_mib=90_000), ("G3", 10_000, None, FIRST_VENDOR)) == 100
