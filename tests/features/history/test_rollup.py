"""Roll-ups against a slow reference, over random readings, gaps and clocks that are set."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from ddsketch import DDSketch
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.features.history.recording.blocks import pack, unpack
from corral.features.history.recording.levels import kept_levels
from corral.features.history.recording.rollup import (
    COLUMNS,
    NO_ROLL_UPS,
    RELATIVE_ERROR,
    RollUps,
    bucket_of,
    fold,
    joined,
    quantile,
    roll_ups_of,
    selected,
    value_of,
)
from corral.features.history.recording.series import DeviceReadings, covered_s

LEVELS = [level.step_s for level in kept_levels(7)]
T0 = 1_700_000_000


def unpacked(data: bytes) -> RollUps:
    return joined(list(unpack(data)))


values = st.one_of(
    st.none(),
    st.integers(-40, 100).map(float),
    st.floats(0, 200_000, allow_subnormal=False).map(lambda value: round(value, 3)),
)
# Ahead of the reading before by an interval, a gap of up to two hours, or back.
moves = st.one_of(st.just(1.0), st.floats(0.1, 5), st.integers(60, 7200).map(float), st.integers(-7200, -1).map(float))


@st.composite
def runs(draw: st.DrawFn) -> list[DeviceReadings]:
    at, before, readings = float(T0), None, []
    for move, first, second in draw(st.lists(st.tuples(moves, values, values), max_size=60)):
        at += move
        readings.append(DeviceReadings(at, covered_s(at, before, 1.0), (first, second)))
        before = at
    return readings


def slow(readings: Sequence[DeviceReadings], step_s: int) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """Of each series and step every reading and what it covers."""
    found = defaultdict(list)
    for reading in readings:
        for series, value in enumerate(reading.values):
            if value is not None:
                found[series, math.floor(reading.at) // step_s * step_s].append((value, reading.covered_s))
    return found


def nearest_rank(known: list[float], percent: int) -> float:
    """The least of `known` that so many percent of them are not above."""
    return sorted(known)[max(1, -(-percent * len(known) // 100)) - 1]


def check(steps: RollUps, readings: Sequence[DeviceReadings], step_s: int) -> None:
    expected = slow(readings, step_s)
    assert list(zip(steps.series.tolist(), steps.start.tolist(), strict=True)) == sorted(expected)
    p95 = quantile(steps, 0.95)
    for row, key in enumerate(sorted(expected)):
        known = sorted(value for value, _ in expected[key])
        assert steps.count[row] == len(known)
        assert (steps.least[row], steps.most[row]) == (known[0], known[-1])
        assert steps.total[row] == pytest.approx(sum(known), abs=1e-6)
        assert steps.covered_s[row] == pytest.approx(sum(covered for _, covered in expected[key]), abs=1e-3)
        exact = nearest_rank(known, 95)
        assert abs(p95[row] - exact) <= RELATIVE_ERROR * abs(exact) + 1e-9


@given(runs(), st.sampled_from([*LEVELS, 300, 900]))
def test_a_step_has_what_its_readings_have_however_they_came(readings: list[DeviceReadings], step_s: int) -> None:
    check(roll_ups_of(readings, step_s), readings, step_s)


@given(runs(), st.integers(1, 7), st.sampled_from(LEVELS))
@settings(deadline=None)
def test_levels_made_in_batches_and_packed_between_are_those_made_at_once(
    readings: list[DeviceReadings], size: int, step_s: int
) -> None:
    so_far = NO_ROLL_UPS
    for first in range(0, len(readings), size):
        new = fold(roll_ups_of(readings[first : first + size], 1), step_s)
        so_far = unpacked(pack(fold(joined([so_far, new]), step_s)))
    check(so_far, readings, step_s)
    check(fold(so_far, 7200), readings, 7200)


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=50))
def test_quantiles_are_those_of_the_library(known: list[float]) -> None:
    sketch = DDSketch(RELATIVE_ERROR)
    for value in known:
        sketch.add(value)
    steps = roll_ups_of([DeviceReadings(T0, 1.0, (value,)) for value in known], 60)
    for percent in (0, 50, 95, 100):
        rank = sorted(known).index(nearest_rank(known, percent))
        # The library's rank is a part of the way from the first reading to the last; half a rank more is that rank yet.
        asked = min(1.0, (rank + 0.5) / max(1, len(known) - 1))
        expected = min(max(float(sketch.get_quantile_value(asked) or 0), min(known)), max(known))
        assert quantile(steps, percent / 100)[0] == pytest.approx(expected)


def test_of_two_readings_95_percent_are_not_above_the_greater() -> None:
    steps = roll_ups_of([DeviceReadings(T0 + at, 1.0, (value,)) for at, value in enumerate((86.0, 92.0))], 2)
    assert quantile(steps, 0.95).tolist() == [pytest.approx(92.0, rel=RELATIVE_ERROR)]


@given(st.floats(-1e7, 1e7))
def test_a_bucket_stands_for_its_readings_within_the_bound_and_in_their_order(value: float) -> None:
    assert abs(value_of(bucket_of(value)) - value) <= RELATIVE_ERROR * abs(value) + 1e-6
    assert bucket_of(value) <= bucket_of(value + abs(value) / 10 + 1)


@pytest.mark.parametrize(
    ("at", "before", "expected"), [(10.0, None, 1.0), (10.0, 9.5, 0.5), (10.0, 2.0, 1.0), (10.0, 50.0, 1.0)]
)
def test_a_reading_stands_for_no_more_than_an_interval(at: float, before: float | None, expected: float) -> None:
    assert covered_s(at, before, 1.0) == expected


def test_what_is_selected_keeps_its_own_buckets() -> None:
    steps = roll_ups_of([DeviceReadings(T0 + i, 1.0, (float(i), 50.0)) for i in range(10)], 1)
    of_second = selected(steps, steps.series == 1)
    assert len(of_second) == 10
    assert quantile(of_second, 0.95).tolist() == [50.0] * 10


def test_nothing_is_nothing_at_every_level() -> None:
    assert len(roll_ups_of([DeviceReadings(T0, 1.0, (None,))], 60)) == 0
    assert len(fold(NO_ROLL_UPS, 60)) == 0
    assert len(unpacked(pack(NO_ROLL_UPS))) == 0
    assert quantile(NO_ROLL_UPS, 0.95).tolist() == []


@pytest.mark.parametrize("damage", [b"", b"nonsense", pack(NO_ROLL_UPS)[:-3]])
def test_a_damaged_block_is_told(damage: bytes) -> None:
    with pytest.raises(ValueError):
        unpacked(damage)


@given(runs())
def test_a_block_comes_back_as_it_was(readings: list[DeviceReadings]) -> None:
    steps = roll_ups_of(readings, 10)
    again = unpacked(pack(steps))
    for name in COLUMNS:
        assert np.allclose(getattr(again, name), getattr(steps, name), rtol=1e-6)
