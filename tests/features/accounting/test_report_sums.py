"""Every granted millisecond is one of used, idle and unmetered, and sums are the same however they are grouped."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.devices.price import Price
from corral.core.model.placing.allocation import Grant, Member
from corral.core.model.runs.run_history import HeldAllocation, MeteredHour, ReportBy
from corral.features.accounting.held_devices import HOUR_MS, HeldDevice, held_devices
from corral.features.accounting.price_list import DatedPrice, PriceList
from corral.features.accounting.report_sums import Key, LocalTime, Sums, added, report, rows_of

T0 = 472_000 * 3600.0
END_MS = round(T0 * 1000) + 10 * HOUR_MS
UTC = LocalTime(lambda at: (at // HOUR_MS % 24, (at // HOUR_MS // 24 + 3) % 7))
INDIA = LocalTime(lambda at: UTC.at(at + 19_800_000), HOUR_MS // 2)
PRICES = PriceList(
    [
        DatedPrice(Price(1_250_000), round(T0 * 1000) + 90_061_007 % (5 * HOUR_MS)),
        DatedPrice(Price(7_000_001, "B"), None),
    ]
)
MODELS = {"GPU-0": "A", "GPU-1": "B", "GPU-2": None}
SECONDS = st.integers(0, 4 * 3_600_000).map(lambda ms: T0 + ms / 1000)


@st.composite
def held(draw: st.DrawFn, number: int) -> HeldAllocation:
    """A whole or a part of devices, on one or two nodes; live or ended, now and then before it began."""
    begin, length = draw(SECONDS), draw(st.integers(-5_000_000, 20_000_000)) / 1000
    grant = st.builds(Grant, st.sampled_from(list(MODELS)), st.sampled_from([10, 143, 500, 1000]))
    members = draw(st.lists(st.builds(Member, st.sampled_from("mn"), st.tuples(grant)), min_size=1, max_size=3))
    name = draw(st.sampled_from("abc"))
    return HeldAllocation(
        f"{number}.1", str(number % 3), name, name, draw(st.sampled_from("pq")), draw(st.sampled_from("xy")), begin,
        draw(st.sampled_from([None, begin + length])), tuple(members), draw(st.booleans()),
        draw(st.none() | SECONDS),
    )  # fmt: skip


LIVES = st.integers(0, 5).flatmap(lambda count: st.tuples(*[held(number) for number in range(count)]))
HOURS = st.integers(round(T0 // 3600) - 1, round(T0 // 3600) + 6)
METERS = st.lists(
    st.builds(
        MeteredHour,
        HOURS,
        st.integers(0, 5).map(lambda number: f"{number}.1"),
        st.sampled_from(["GPU-0", "GPU-1", "GPU-2"]),
        st.integers(0, 5_000_000),
        st.integers(0, 5_000_000),
        st.none() | st.integers(0, 10**9),
    ),
    min_size=20,
    max_size=60,
    unique_by=lambda row: row[:3],
)
"""Also more than an hour has, hours in which nothing was held, and allocations that never were: what a restored ledger,
a clock of another boot and a lost file leave behind."""


def devices_of(life: Sequence[HeldAllocation]) -> list[HeldDevice]:
    return list(held_devices(life, END_MS / 1000, lambda _, uuid: MODELS[uuid]))


def sums_of(
    life: Sequence[HeldAllocation],
    metered: Sequence[MeteredHour],
    by: Sequence[ReportBy] = (),
    span: tuple[int, int] = (0, END_MS),
    local: LocalTime = UTC,
) -> dict[Key, Sums]:
    return report(devices_of(life), [metered], by, span, prices=PRICES, local=local)


@settings(max_examples=40, deadline=None)
@given(LIVES, METERS, st.lists(st.sampled_from(ReportBy), max_size=3, unique=True), st.sampled_from([UTC, INDIA]))
def test_any_grouping_comes_to_the_total_to_the_millisecond(
    life: Sequence[HeldAllocation], metered: Sequence[MeteredHour], by: Sequence[ReportBy], local: LocalTime
) -> None:
    grouped, total = sums_of(life, metered, by, local=local), added(sums_of(life, metered).values())
    whole = added(grouped.values())
    assert (whole.granted, whole.cost, whole.unpriced) == (total.granted, total.cost, total.unpriced)
    assert (whole.used, whole.idle, whole.energy_mj) == (total.used, total.idle, total.energy_mj)
    assert (whole.wasted, whole.reserved) == (total.wasted, total.reserved)
    for sums in grouped.values():
        assert min(sums.used, sums.idle, sums.granted - sums.used - sums.idle) >= 0
        assert max(sums.wasted, sums.reserved, sums.unpriced) <= sums.granted


@settings(max_examples=40, deadline=None)
@given(LIVES, METERS, st.lists(st.integers(-HOUR_MS, 11 * HOUR_MS), min_size=1, max_size=4))
def test_periods_in_a_row_come_to_the_one_that_spans_them(
    life: Sequence[HeldAllocation], metered: Sequence[MeteredHour], cuts: Sequence[int]
) -> None:
    moments = sorted({0, END_MS, *(min(END_MS, round(T0 * 1000) + cut) for cut in cuts)})
    parts = [added(sums_of(life, metered, span=span).values()) for span in pairwise(moments)]
    assert added(parts) == added(sums_of(life, metered).values())
    assert all(min(part.used, part.idle, part.granted - part.used - part.idle) >= 0 for part in parts)


@settings(max_examples=40, deadline=None)
@given(LIVES, METERS, st.data())
def test_measures_that_are_lost_make_time_unmetered_and_nothing_else(
    life: Sequence[HeldAllocation], metered: Sequence[MeteredHour], data: st.DataObject
) -> None:
    kept = [row for row in metered if data.draw(st.booleans())]
    whole, less = added(sums_of(life, metered).values()), added(sums_of(life, kept).values())
    assert (less.granted, less.cost, less.wasted) == (whole.granted, whole.cost, whole.wasted)
    assert less.used <= whole.used
    assert less.idle <= whole.idle


@settings(max_examples=30, deadline=None)
@given(LIVES, METERS)
def test_time_by_the_slow_way_is_the_same(life: Sequence[HeldAllocation], metered: Sequence[MeteredHour]) -> None:
    """Granted and wasted time, minute by minute, of allocations whose times are whole minutes."""
    life = [
        one._replace(
            created_at=one.created_at // 60 * 60,
            ended_at=one.ended_at and one.ended_at // 60 * 60,
            wasted_from=one.wasted_from and one.wasted_from // 60 * 60,
        )
        for one in life
    ]
    granted = wasted = 0
    for one in life:
        milli = sum(grant.counted_milli for member in one.members for grant in member.grants)
        for minute in range(round(one.created_at), round(min(one.ended_at or END_MS, END_MS / 1000)), 60):
            granted += 60_000 * milli
            wasted += 60_000 * milli * (one.wasted_from is not None and minute >= one.wasted_from)
    total = added(sums_of(life, metered).values())
    assert (total.granted, total.wasted) == (granted, wasted)


def one(user: str, milli: int, *, hours: float = 2.0, job: str = "7", **fields: object) -> HeldAllocation:
    held = HeldAllocation(
        f"{job}.1",
        job,
        "sft",
        user,
        "vision",
        "default",
        T0,
        T0 + hours * 3600,
        (Member("n", (Grant("GPU-0", milli),)),),
    )
    return held._replace(**fields)  # type: ignore[arg-type]


def test_half_a_gpu_is_half_of_everything_but_energy_which_is_its_own_already() -> None:
    hour = MeteredHour(472_000, "7.1", "GPU-0", 1_800_000, 900_000, 3_600_000_000)
    (row,), _ = rows_of(sums_of([one("alice", 500)], [hour], [ReportBy.USER]), [ReportBy.USER], 10)
    assert (row.gpu_hours, row.used_hours, row.idle_hours, row.unmetered_hours) == (1.0, 0.25, 0.125, 0.625)
    assert (row.names, row.energy_kwh) == ({"user": "alice"}, 1.0)


def test_who_was_granted_most_comes_first_and_what_is_left_out_is_told() -> None:
    life = [one("alice", 500), one("bob", 1000, job="8"), one("carol", 100, job="9")]
    rows, left = rows_of(sums_of(life, [], [ReportBy.USER]), [ReportBy.USER], 2)
    assert [row.names["user"] for row in rows] == ["bob", "alice"]
    assert [sums.granted for sums in left] == [2 * HOUR_MS * 100]


def test_times_come_in_their_order_and_on_the_wall_clock() -> None:
    by = [ReportBy.WEEKDAY, ReportBy.HOUR]
    rows, _ = rows_of(sums_of([one("alice", 1000, hours=30.0)], [], by, (0, END_MS * 2), INDIA), by, 100)
    days = [row.names["weekday"] for row in rows]
    assert days == sorted(days, key=["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].index)
    assert {row.names["hour"] for row in rows} == {f"{hour:02}:00" for hour in range(24)}
    assert sum(row.gpu_hours for row in rows) == 30.0


def test_a_job_is_told_by_its_id_with_its_name() -> None:
    (row,), _ = rows_of(sums_of([one("alice", 1000, job_name="a\nb")], [], [ReportBy.JOB]), [ReportBy.JOB], 10)
    assert row.names == {"job": "7", "name": "a\nb"}


@pytest.mark.parametrize(
    ("model", "cost", "unpriced_ms"),
    [("NVIDIA A100-SXM4-80GB", 2.0 + 3.0, 0), ("NVIDIA H100", 0.5, HOUR_MS), (None, 0.5, HOUR_MS)],
)
def test_the_price_is_that_of_the_model_from_its_day_on(model: str | None, cost: float, unpriced_ms: int) -> None:
    prices = PriceList(
        [
            DatedPrice(Price(500_000), HOUR_MS),
            DatedPrice(Price(3_000_000, "A100"), HOUR_MS),
            DatedPrice(Price(2_000_000, "a100-80gb"), None),
        ]
    )
    units, unpriced = prices.cost(model, 1000, 0, 2 * HOUR_MS)
    assert (units / (1000 * HOUR_MS * 1e6), unpriced) == (cost, unpriced_ms)


def test_hours_without_a_price_have_no_cost_and_are_told() -> None:
    sums = Sums(granted=HOUR_MS * 1000, unpriced=HOUR_MS * 1000)
    assert (sums.row({}).cost, sums.row({}).unpriced_hours) == (None, 1.0)
